"""The page of a served bank."""

from __future__ import annotations

from html import escape

from rbank_es.bank import Bank
from rbank_es.dashboard.answers import ANSWERS
from rbank_es.dashboard.http_response import NOTHING


def served_page(bank: Bank) -> tuple[str, str]:
    """Return the HTML of the page of a bank, and the policy under which a browser shows it."""
    links = "".join(f'<li><a href="/api/v1/{name}">{name}</a></li>' for name in ANSWERS)
    title = escape(bank.name)
    html = (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1><ul>{links}</ul>'
    )
    return html, NOTHING
