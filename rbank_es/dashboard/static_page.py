"""A static page: one HTML document without a script, as reports of experiments are."""

from __future__ import annotations

from rbank_es.dashboard.html_page import html_page, page_file
from rbank_es.dashboard.page_text import Html, element
from rbank_es.dashboard.palette import colour_rules

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: Html) -> str:
    """Return a whole page of one file, in both themes, in which no script may run."""
    style = colour_rules() + page_file("static_page.css")
    return html_page(title, policy=_POLICY, style=style, body=element("div", body, class_="page"))
