"""The dashboard: one self-contained HTML page about a bank at a point in time.

    facts = PageFacts(name="sample", position=412, head="412:9f…", at="2026-01-31T12:00:00Z")
    write_page(bank.as_of("HEAD~5"), "page.html", facts)

Needs plotly, which the extra `dashboard` installs; it is imported when a chart is drawn, not before.
"""

from __future__ import annotations

import os

import msgspec

from rbank_es.dashboard.page import render
from rbank_es.dashboard.page_facts import PageFacts, Rows
from rbank_es.errors import CannotWrite
from rbank_es.system.files import write_replacing

__all__ = ["PageFacts", "Rows", "WrittenPage", "render", "write_page"]


class WrittenPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page on disk: its absolute path and its size in bytes."""

    path: str
    size_bytes: int


def write_page(view: Rows, path: str | os.PathLike[str], facts: PageFacts) -> WrittenPage:
    """Write the page to `path`, whole or not at all; a file that is there is replaced.

    Raises `MissingExtra` where plotly is not installed, `CannotWrite` where the system refuses or `path` is no file.
    """
    content = render(view, facts).encode()
    try:
        goal, size_bytes = write_replacing(path, [content], follow=True)
    except OSError as refused:
        raise CannotWrite(str(path), refused) from refused
    return WrittenPage(path=str(goal.absolute()), size_bytes=size_bytes)
