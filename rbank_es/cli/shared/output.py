"""Standard output: JSON for programs, tables and fields for people, in colour only where that is welcome.

On a terminal, tables are drawn with rich and cut to its width. Elsewhere they are plain aligned text, whole,
without a single escape sequence.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import TracebackType
from typing import Any

import msgspec

from rbank_es.cli.shared import output

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
        print(f"rbank-es: {output.line(words)}", file=sys.stderr, flush=True)


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

    say("\n".join(textwrap.wrap(output.line(text), min(columns(), PARAGRAPH_COLUMNS))))


def heading(text: str) -> None:
    """Print the title of what follows, with a blank line before it."""
    say(f"\n{styled(text, 'bold')}")


def fields(values: Mapping[str, Cell], *, indent: int = 0) -> None:
    """Print `name  value` lines, the values aligned; what is None or empty is left out."""
    shown = {name: shown_cell(value) for name, value in values.items() if value is not None and value != ""}
    widest = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *more = output.block(value).split("\n")
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
    cells = [[output.line(shown_cell(value)) for value in row] for row in body]
    if on_terminal():
        _rich_table(headers, cells, right, flexible)
    else:
        _plain_table(headers, cells, right)


def _plain_table(headers: Sequence[str], cells: list[list[str]], right: list[bool]) -> None:
    widths = _natural_widths([list(headers), *cells])
    for row in [list(headers), *cells]:
        padded = (output.padded(cell, widths[at], right=right[at]) for at, cell in enumerate(row))
        say("  ".join(padded).rstrip())


def _natural_widths(rows: list[list[str]]) -> list[int]:
    return [max(map(output.width, column)) for column in zip(*rows, strict=True)]


def fitted_widths(headers: Sequence[str], cells: list[list[str]], flexible: Sequence[str], room: int) -> list[int]:
    """Widths that fit into the room, as far as that can be: flexible columns give way, then headers are wrapped."""
    widths = _natural_widths([list(headers), *cells])
    least = [max(map(output.width, header.split())) for header in headers]
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
        grid.add_row(*(Text(output.cut(cell, width)) for cell, width in zip(row, widths, strict=True)))
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


ELLIPSIS = "…"
# Control characters, and those that turn the direction of text: a stored text must not be able to
# move the cursor, hide a line, or show a command other than the one that is there.
_STEERING = chain(range(0x20), range(0x7F, 0xA0), (0x2028, 0x2029), range(0x202A, 0x202F), range(0x2066, 0x206A))
_SPELLED = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _STEERING}
_SPELLED_BUT_LINES = {code: spelled for code, spelled in _SPELLED.items() if code != ord("\n")}


def line(text: str) -> str:
    """The text on one line: runs of white space as one blank, control characters spelled out."""
    return " ".join(text.split()).translate(_SPELLED)


def block(text: str) -> str:
    """The text on its own lines, control characters spelled out, tabs as blanks."""
    return text.replace("\r\n", "\n").expandtabs(4).translate(_SPELLED_BUT_LINES)


def width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    import unicodedata  # only texts beyond ASCII pay for it

    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text, or its beginning and an ellipsis, in at most so many columns (at least one)."""
    if width(text) <= columns:
        return text
    taken, used = [], 0
    for char in text:
        used += _columns(char)
        if used > columns - 1:
            break
        taken.append(char)
    return "".join(taken).rstrip() + ELLIPSIS


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up with blanks to so many columns; a wider one stays as it is."""
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `2 runs`, `1,234 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def moment(at: str | None) -> str:
    """A stored time as people read it: `2026-01-31 12:00:00`, UTC."""
    return (at or "")[:19].replace("T", " ")


def size_text(size_bytes: int) -> str:
    """A size in the unit that suits it: `812 bytes`, `1.2 MiB`."""
    if size_bytes < 1024:
        return count(size_bytes, "byte")
    size, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"


DELAY_S = 1.0
REDRAW_S = 0.1
BAR_COLUMNS = 30


class Progress:
    """A progress bar to be called with `(done, total)`; nothing is drawn before a second, or where nobody looks.

    A context manager: leaving it wipes the bar. `total` may be None where it isn't known.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._began = time.monotonic()
        self._drawn: float | None = None

    def __call__(self, done: int, total: int | None = None) -> None:
        """Note that `done` of `total` is done."""
        now = time.monotonic()
        if self._stream is None or now - self._began < DELAY_S:
            return
        if self._drawn is None or now - self._drawn >= REDRAW_S:
            self._drawn = now
            self._draw(bar(self.label, done, total, now - self._began))

    def _draw(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(f"\r\x1b[2K{text}")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn is not None:
            self._draw("")


def bar(label: str, done: int, total: int | None, elapsed_s: float) -> str:
    """The bar as text: share, counts, and the seconds left at the pace so far."""
    if not total:
        return f"{label}  {done:,}"
    share = min(1.0, done / total)
    filled = int(share * BAR_COLUMNS)
    left_s = f"  {elapsed_s * (1 - share) / share:.0f} s left" if done else ""
    return f"{label}  {'█' * filled}{'░' * (BAR_COLUMNS - filled)} {share:4.0%}  {done:,} of {total:,}{left_s}"
