"""HTML pages of one file: their frame, the static ones of reports, which hold no script, and bounded tables."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import msgspec

from rbank_es.limits import page_limits
from rbank_es.page.escaped_html import NOT_RECORDED, Html, amount, element, join, shorten
from rbank_es.page.palette import colour_rules


def html_page(title: str, *, policy: str, style: str, body: str) -> str:
    """Return a whole document, whose content has the id `main`; `policy` is its Content-Security-Policy."""
    return Template(page_file("html_page.html")).substitute(
        policy=html.escape(policy), title=join(title, " – rbank-es"), style=style, body=body
    )


def page_file(name: str) -> str:
    """Return the text of a file of this package, with the newlines that browsers digest."""
    return files("rbank_es.page").joinpath(name).read_text("utf-8").replace("\r\n", "\n")


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def document(title: str, body: Html) -> str:
    """Return a whole page of one file, in both themes, in which no script may run."""
    style = colour_rules() + page_file("static_page.css")
    return html_page(title, policy=_POLICY, style=style, body=element("div", body, class_="page"))


Row = Mapping[str, Any]


class TableColumn(msgspec.Struct, frozen=True):
    """One column: its heading, the text of its cell in a row, and whether that is a number."""

    heading: str
    cell: Callable[[Row], str]
    number: bool = True


def table(
    caption: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Row],
    *,
    cut: str = "",
    most: int = page_limits.DASHBOARD_ROWS,
) -> Html:
    """Return a table in a region that scrolls by mouse and keyboard; the first column names the row.

    At most `most` rows are shown; the caption tells how many are left out, ending in `cut`.
    """
    shown = rows[:most]
    if len(shown) < len(rows):
        caption = f"{caption} {len(shown):,} of {len(rows):,} are shown{cut and ', ' + cut}."
    head = element("tr", *(element("th", c.heading, scope="col", class_=_kind(c)) for c in columns))
    body = (element("tr", *(_cell(column, row, first=column is columns[0]) for column in columns)) for row in shown)
    heading = element("caption", element("span", caption))
    made = element("table", heading, element("thead", head), element("tbody", *body))
    return element("div", made, class_="table", role="region", tabindex="0", aria_label=caption.split(".")[0])


def _kind(column: TableColumn) -> str | None:
    return "number" if column.number else None


def _cell(column: TableColumn, row: Row, *, first: bool) -> Html:
    shown = column.cell(row)
    if shown == NOT_RECORDED:
        shown = element("span", shown, class_="missing")
    return element("th", shown, scope="row") if first else element("td", shown, class_=_kind(column))


def text(name: str) -> Callable[[Row], str]:
    """Return the cell of a column of text."""
    return lambda row: shorten(row[name]) if row.get(name) else NOT_RECORDED


def number(name: str) -> Callable[[Row], str]:
    """Return the cell of a column of numbers."""
    return lambda row: amount(row.get(name))
