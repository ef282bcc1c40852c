"""The page of a served bank: the app of an exported one, without data, which it fetches as they are asked for."""

from __future__ import annotations

from rbank_es.bank import Bank
from rbank_es.dashboard.app_script import app_page, page_policy
from rbank_es.dashboard.page_text import element

SOURCE = "'self'"


def served_page(bank: Bank) -> tuple[str, str]:
    """Return the HTML of the page of a bank, and the policy under which a browser shows it."""
    without_script = element("noscript", "This page needs JavaScript; rbank-es dashboard writes one that has tables.")
    body = element("main", element("p", "Loading…"), without_script)
    # Only the header may say who frames the page.
    return app_page(bank.name, body, connect=SOURCE), f"{page_policy(SOURCE)}; frame-ancestors 'none'"
