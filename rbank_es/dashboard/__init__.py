"""The dashboard: one self-contained HTML page about a bank at a point in time.

    facts = PageFacts(name="sample", position=412, head="412:9f…", at="2026-01-31T12:00:00Z")
    write_page(bank.as_of("HEAD~5"), "page.html", facts)

Needs plotly, which the optional part `dashboard` brings; it is imported when a chart is drawn, not before.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from rbank_es.dashboard.page import render
from rbank_es.dashboard.page_facts import PageFacts, Rows
from rbank_es.errors import CannotWrite

__all__ = ["PageFacts", "Rows", "Written", "render", "write_page"]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A page on disk: its absolute path and its size in bytes."""

    path: str
    size_bytes: int


def write_page(view: Rows, path: str | os.PathLike[str], facts: PageFacts) -> Written:
    """Write the page to `path`, whole or not at all, in place of a file that may be there.

    Raises MissingExtra where plotly is not installed, CannotWrite where the system refuses or `path` is no file.
    """
    content = render(view, facts).encode()
    goal = Path(path).resolve()
    draft = goal.parent / f".{goal.name[:100]}.{os.getpid()}.part"
    try:
        if goal.exists() and not goal.is_file():
            raise OSError(0, "it is there, and not a file")
        draft.write_bytes(content)
        draft.replace(goal)
    except OSError as refused:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise CannotWrite(str(path), refused) from refused
    return Written(path=str(goal), size_bytes=len(content))
