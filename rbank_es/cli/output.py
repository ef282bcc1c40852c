"""Standard output: JSON for programs, tables and fields for people, in colour only where that is welcome.

On a terminal, tables are drawn with rich and cut to its width. Elsewhere they are plain aligned text, whole,
without a single escape sequence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rbank_es.cli import texts

Cell = str | int | float | bool | None
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def on_terminal() -> bool:
    """Whether standard output is a terminal, so that a person is reading."""
    return sys.stdout is not None and sys.stdout.isatty()


def in_colour() -> bool:
    """Whether escape sequences are welcome: a terminal that knows them, and no NO_COLOR."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """Width of the terminal in columns; 80 where there is none."""
    import shutil

    return shutil.get_terminal_size().columns


def styled(text: str, style: str) -> str:
    """The text in a style (bold, dim, red, green, yellow, cyan) where that is welcome, else as it is."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text and in_colour() else text


def say(text: str = "") -> None:
    """Print a line or several, as UTF-8 whatever the locale says."""
    write((text + "\n").encode("utf-8", "backslashreplace"))


def write(data: bytes) -> None:
    """Write bytes to standard output."""
    if sys.stdout is not None:
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Hand over what was printed so far, for output that somebody follows."""
    if sys.stdout is not None:
        sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print one JSON document: dicts, lists, plain values and msgspec Structs."""
    write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def heading(text: str) -> None:
    """Print the title of what follows, with a blank line before it."""
    say(f"\n{styled(text, 'bold')}")


def fields(values: Mapping[str, Cell], *, indent: int = 0) -> None:
    """Print `name  value` lines, the values aligned; what is None or empty is left out."""
    shown = {name: shown_cell(value) for name, value in values.items() if value is not None and value != ""}
    widest = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *more = texts.block(value).split("\n")
        say(f"{' ' * indent}{styled(name.ljust(widest), 'dim')}  {first}")
        for rest in more:
            say(f"{' ' * (indent + widest + 2)}{rest}")


def shown_cell(value: Cell) -> str:
    """A value as people read it: thousands separated, yes and no, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return value


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, flexible: str = "", none: str = "none") -> None:
    """Print a table; numbers stand to the right. `flexible` names the column that gives way on a narrow terminal.

    With no rows, `none` is printed instead.
    """
    body = list(rows)
    if not body:
        say(none)
        return
    right = [all(isinstance(row[at], int | float | None) for row in body) for at in range(len(headers))]
    cells = [[texts.line(shown_cell(value)) for value in row] for row in body]
    if on_terminal():
        _rich_table(headers, cells, right, flexible)
    else:
        _plain_table(headers, cells, right)


def _plain_table(headers: Sequence[str], cells: list[list[str]], right: list[bool]) -> None:
    widths = [max(texts.width(row[at]) for row in [list(headers), *cells]) for at in range(len(headers))]
    for row in [list(headers), *cells]:
        padded = (texts.padded(cell, widths[at], right=right[at]) for at, cell in enumerate(row))
        say("  ".join(padded).rstrip())


def _rich_table(headers: Sequence[str], cells: list[list[str]], right: list[bool], flexible: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for at, header in enumerate(headers):
        gives_way = header == flexible or not flexible
        grid.add_column(
            header,
            justify="right" if right[at] else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if gives_way else max(texts.width(row[at]) for row in [list(headers), *cells]),
        )
    for row in cells:
        grid.add_row(*map(Text, row))
    sys.stdout.flush()
    Console(file=sys.stdout, highlight=False, no_color=not in_colour()).print(grid)
