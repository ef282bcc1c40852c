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

from rbank_es.cli.shared import terminal_text

GAP = 2
"""Blanks between two columns of a table."""

FLEXIBLE_COLUMNS = 12
"""What a column that gives way keeps."""

PARAGRAPH_COLUMNS = 100
"""The longest line of running text."""

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


def complain(words: str) -> None:
    """Tell the person something on standard error."""
    if sys.stderr is not None:
        print(f"rbank-es: {terminal_text.line(words)}", file=sys.stderr, flush=True)


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


def paragraph(text: str) -> None:
    """Print running text, broken into lines that are no longer than reads well."""
    import textwrap

    say("\n".join(textwrap.wrap(terminal_text.line(text), min(columns(), PARAGRAPH_COLUMNS))))


def heading(text: str) -> None:
    """Print the title of what follows, with a blank line before it."""
    say(f"\n{styled(text, 'bold')}")


def fields(values: Mapping[str, Cell], *, indent: int = 0) -> None:
    """Print `name  value` lines, the values aligned; what is None or empty is left out."""
    shown = {name: shown_cell(value) for name, value in values.items() if value is not None and value != ""}
    widest = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *more = terminal_text.block(value).split("\n")
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
        return f"{value:,.6g}"
    return value


def table(
    headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, flexible: Sequence[str] = (), none: str = "none"
) -> None:
    """Print a table; numbers stand to the right. `flexible` names columns that give way on a narrow terminal, in order.

    With no rows, `none` is printed instead.
    """
    body = list(rows)
    if not body:
        say(none)
        return
    right = [all(isinstance(row[at], int | float | None) for row in body) for at in range(len(headers))]
    cells = [[terminal_text.line(shown_cell(value)) for value in row] for row in body]
    if on_terminal():
        _rich_table(headers, cells, right, flexible)
    else:
        _plain_table(headers, cells, right)


def _plain_table(headers: Sequence[str], cells: list[list[str]], right: list[bool]) -> None:
    widths = _natural_widths([list(headers), *cells])
    for row in [list(headers), *cells]:
        padded = (terminal_text.padded(cell, widths[at], right=right[at]) for at, cell in enumerate(row))
        say("  ".join(padded).rstrip())


def _natural_widths(rows: list[list[str]]) -> list[int]:
    return [max(map(terminal_text.width, column)) for column in zip(*rows, strict=True)]


def fitted_widths(headers: Sequence[str], cells: list[list[str]], flexible: Sequence[str], room: int) -> list[int]:
    """Widths that fit into the room, as far as that can be: flexible columns give way, then headers are wrapped."""
    widths = _natural_widths([list(headers), *cells])
    least = [max(map(terminal_text.width, header.split())) for header in headers]
    firm = [max(pair) for pair in zip(least, _natural_widths(cells), strict=True)]
    giving = [headers.index(name) for name in flexible]
    floors = dict(enumerate(firm)) | dict.fromkeys(giving, FLEXIBLE_COLUMNS)
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    for at in dict.fromkeys([*giving, *floors]):
        given = min(max(0, excess), max(0, widths[at] - floors[at]))
        widths[at] -= given
        excess -= given
    return widths


def _rich_table(headers: Sequence[str], cells: list[list[str]], right: list[bool], flexible: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    widths = fitted_widths(headers, cells, flexible, columns())
    for header, width, is_number in zip(headers, widths, right, strict=True):
        grid.add_column(header, width=width, justify="right" if is_number else "left", vertical="bottom")
    for row in cells:
        # Cut here: rich takes width from every column alike.
        grid.add_row(*(Text(terminal_text.cut(cell, width)) for cell, width in zip(row, widths, strict=True)))
    flush()
    console = Console(
        file=sys.stdout,
        highlight=False,
        color_system="standard" if in_colour() else None,
        width=max(columns(), sum(widths) + GAP * len(widths)),
    )
    console.print(grid)


def program() -> str:
    """How this command was called, so that what is shown can be typed."""
    import shutil
    from pathlib import Path

    called = Path(sys.argv[0])
    if called.name != "rbank-es":
        return "python -m rbank_es"
    if shutil.which("rbank-es") == str(called):
        return "rbank-es"
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)
