"""A static page: one HTML document without a script, as reports of experiments are."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from rbank_es.dashboard.page_text import Html, element, join
from rbank_es.dashboard.palette import colour_rules

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: Html) -> str:
    """Return a whole page of one file, in both themes, in which no script may run."""
    return Template(_asset("static_page.html")).substitute(
        policy=_POLICY,
        title=join(title, " – rbank-es"),
        colours=colour_rules(),
        style=_asset("static_page.css"),
        body=element("div", body, class_="page"),
    )


def _asset(name: str) -> str:
    return files("rbank_es.dashboard").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
