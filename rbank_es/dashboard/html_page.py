"""The HTML document of every page: its head, its policy, and a link over what stands before the content."""

from __future__ import annotations

import html
from importlib.resources import files
from string import Template

from rbank_es.dashboard.page_text import join


def html_page(title: str, *, policy: str, style: str, body: str) -> str:
    """Return a whole document, whose content has the id `main`; `policy` is its Content-Security-Policy."""
    return Template(page_file("html_page.html")).substitute(
        policy=html.escape(policy), title=join(title, " – rbank-es"), style=style, body=body
    )


def page_file(name: str) -> str:
    """Return the text of a file of this package, with the newlines that browsers digest."""
    return files("rbank_es.dashboard").joinpath(name).read_text("utf-8").replace("\r\n", "\n")
