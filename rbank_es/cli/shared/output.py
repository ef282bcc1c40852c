"""Output of the commands: JSON for programs; text, tables and a progress bar for people.

On a terminal, tables fit its width and colours are used unless NO_COLOR is set. Elsewhere the output is plain aligned
text, whole, without escape sequences. Stored texts go through `safe_line` or `safe_block` before they are printed.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec

from rbank_es.events.hidden_characters import visible, visible_json
from rbank_es.events.readable_text import count, safe_line
from rbank_es.system.redacted_locator import without_secrets
from rbank_es.system.text_cuts import ELLIPSIS

GAP = 2
"""Blanks between two columns of a table."""

FLEXIBLE_COLUMNS = 12
"""The least width of a flexible column."""

PARAGRAPH_COLUMNS = 100
"""The longest line of running text."""

# A bar that is gone at once only flickers; ten redraws a second look smooth and cost nothing.
PROGRESS_DELAY_S = 1.0
REDRAW_S = 0.1
BAR_COLUMNS = 30

Cell = str | int | float | bool | None
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STYLE = re.compile(rf"(\x1b\[(?:0|{'|'.join(_STYLES.values())})m)")
# Texts: compiled when a line is first broken, because that takes 10 ms.
# Before a wide character, because Chinese and Japanese have no blanks; punctuation stays with the character before it.
_BEFORE_WIDE = r"(?=[\u3040-\u30fb\u3400-\u9fff\uac00-\ud7a3\uff10-\uff19\uff21-\uff3a\U00020000-\U0003ffff])"
_BREAKS = rf"(?<=[^ ])( +)(?=[^ ])|{_BEFORE_WIDE}"
_BREAKS_IN_FIELDS = rf"(?<=[^ ])( )(?=[^ ])|{_BEFORE_WIDE}"


# ---------------------------------------------------------------- text


def safe_block(text: str) -> str:
    """Return the text with its lines kept, tabs expanded, hidden characters spelled out."""
    return visible(text.replace("\r\n", "\n").expandtabs(4), keep="\n")


def width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    import unicodedata  # Here, because only texts beyond ASCII need it.

    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def truncate(text: str, columns: int) -> str:
    """Return the text in at most `columns` columns (1 or more); a truncated one ends in an ellipsis."""
    if width(text) <= columns:
        return text
    taken, used = [], 0
    for char in text:
        used += _char_columns(char)
        if used > columns - 1:
            break
        taken.append(char)
    return "".join(taken).rstrip() + ELLIPSIS


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Return the text filled with blanks to `columns` columns (on the left if `right`), never shortened."""
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks


SCRIPTED = "scripted: a script stood in for the model"
"""The note in every report on runs in which no model answered."""

VERDICT_COLOURS = {"success": "green", "failure": "red", "undecided": "yellow"}
"""The colour of each verdict on a terminal."""


def format_positions(first: int, last: int) -> str:
    """Return where events are in a log, in words: `position 7`, `positions 7 to 1,009`."""
    return f"position {first:,}" if first == last else f"positions {first:,} to {last:,}"


def format_time(at: str | None) -> str:
    """Return a stored time in UTC to the second, `2026-01-31 12:00:00`; empty for None."""
    return (at or "")[:19].replace("T", " ")


def format_size(size_bytes: int) -> str:
    """Return a size in a readable unit: `812 bytes`, `1.2 MiB`."""
    if size_bytes < 1024:
        return count(size_bytes, "byte")
    size, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{size:.1f} {unit}"


def format_cell(value: Cell) -> str:
    """Return a value for people: thousands separated, yes or no, empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return value


# ---------------------------------------------------------------- terminal


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def in_colour() -> bool:
    """Return whether standard output takes escape sequences: a capable terminal, and NO_COLOR not set."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_columns() -> int:
    """Return the terminal's width, 80 where there is no terminal."""
    import shutil

    return shutil.get_terminal_size().columns


def styled(text: str, style: str) -> str:
    """Return the text in a style (bold, dim, red, green, yellow, cyan) where colours are used, else unchanged."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text and in_colour() else text


def program_name() -> str:
    """Return how this command was called, so that printed command lines can be typed."""
    import shutil
    from pathlib import Path

    called = Path(sys.argv[0])
    if called.name != "rbank-es":
        return "python -m rbank_es"
    if shutil.which("rbank-es") == str(called):
        return "rbank-es"
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)


# ---------------------------------------------------------------- printing


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output, if it is open."""
    if sys.stdout is not None:
        sys.stdout.buffer.write(data)


def flush() -> None:
    """Flush standard output, for readers that follow it."""
    if sys.stdout is not None:
        sys.stdout.flush()


def echo(text: str = "", *, hang: int | None = None) -> None:
    """Print lines of text in UTF-8, whatever the locale; spell out what is hidden, except the styles of this module.

    On a terminal, longer lines are wrapped between words; what follows is indented by `hang` blanks, or as the line is.
    """
    # Also where a caller made its text safe, because one that forgot would hand the terminal to a stored text.
    parts = _STYLE.split(text) if in_colour() else [text]
    shown = "".join(part if at % 2 else visible(part, keep="\n") for at, part in enumerate(parts))
    if on_terminal():
        columns = terminal_columns()
        shown = "\n".join(piece for line in shown.split("\n") for piece in wrapped(line, columns, hang))
    write_bytes((shown + "\n").encode())


def wrapped(line: str, columns: int, hang: int | None = None) -> list[str]:
    """Return a line as lines of at most `columns` columns, broken between words and before wide characters.

    A longer word stays whole. With `hang`, a run of blanks is a gap between columns, where no line is broken.
    """
    if _columns_of(line) <= columns:
        return [line]
    indent = " " * (len(line) - len(line.lstrip(" ")) if hang is None else min(hang, columns // 2))
    current, *more = re.split(_BREAKS if hang is None else _BREAKS_IN_FIELDS, line)
    lines, used = [], _columns_of(current)
    # Gaps and words alternate; before a wide character the gap is None.
    for gap, word in zip(more[::2], more[1::2], strict=True):
        added = f"{gap or ''}{word}"
        used += _columns_of(added)
        if used > columns:
            lines.append(current)
            current, added = indent, word
            used = len(indent) + _columns_of(word)
        current += added
    return [*lines, current]


def _columns_of(text: str) -> int:
    return width(_STYLE.sub("", text))


def say(text: str) -> None:
    """Print lines of text, without the secrets of URLs, on standard error, if it is open."""
    if sys.stderr is not None:
        print(safe_block(without_secrets(text)), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print one line on standard error, after the program's name."""
    say(f"rbank-es: {safe_line(text)}")


def echo_json(value: Any) -> None:
    """Print one JSON document of dicts, lists, plain values and msgspec Structs, over several lines."""
    write_json(msgspec.json.format(msgspec.json.encode(value), indent=2))


def write_json(document: bytes) -> None:
    """Print one JSON document as it is, except that hidden characters in its strings are escaped."""
    write_bytes(visible_json(document) + b"\n")


def echo_paragraph(text: str) -> None:
    """Print running text, wrapped at the terminal's width or `PARAGRAPH_COLUMNS`."""
    import textwrap

    echo("\n".join(textwrap.wrap(safe_line(text), min(terminal_columns(), PARAGRAPH_COLUMNS))))


def echo_command(arguments: str, mark: str = "$ ") -> None:
    """Print a command line of this program after a mark, to be typed."""
    # Not wrapped: a line break would end the command where it is pasted.
    write_bytes((styled(f"{mark}{program_name()} {visible(without_secrets(arguments))}", "cyan") + "\n").encode())


def echo_scripted() -> None:
    """Print, after a blank line, that a script stood in for the model."""
    echo(styled(f"\n{SCRIPTED}", "yellow"))


def echo_heading(text: str) -> None:
    """Print a heading, with a blank line before it."""
    echo(f"\n{styled(text, 'bold')}")


def echo_fields(values: Mapping[str, Cell], *, indent: int = 0) -> None:
    """Print aligned lines of name and value; leave out None and empty texts."""
    # Leave out what is unknown, because an empty line would look like an empty value.
    shown = {name: format_cell(value) for name, value in values.items() if value is not None and value != ""}
    widest = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *more = safe_block(value).split("\n")
        hang = indent + widest + 2
        echo(f"{' ' * indent}{styled(name.ljust(widest), 'dim')}  {first}", hang=hang)
        for rest in more:
            echo(f"{' ' * hang}{rest}")


def echo_section(
    title: str, headers: Sequence[str], rows: Sequence[Sequence[Cell]], *, flexible: Sequence[str] = ()
) -> None:
    """Print a heading with a table; nothing where there are no rows."""
    if rows:
        echo_heading(title)
        echo_table(headers, rows, flexible=flexible)


def echo_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    flexible: Sequence[str] = (),
    optional: Collection[str] = (),
    none: str = "none",
) -> None:
    """Print a table, or the text `none` where there are no rows; columns of numbers are right-aligned.

    `flexible` names the columns that are truncated first on a narrow terminal, in order; `optional` those that are left
    out where no row has a value in them.
    """
    body = list(rows)
    if not body:
        echo(none)
        return
    if optional:
        shown = [at for at, header in enumerate(headers) if header not in optional or any(row[at] for row in body)]
        headers, body = [headers[at] for at in shown], [[row[at] for at in shown] for row in body]
    # Only columns that hold nothing but numbers, because mixed ones read as text.
    right = [all(isinstance(row[at], int | float | None) for row in body) for at in range(len(headers))]
    cells = [[safe_line(format_cell(value)) for value in row] for row in body]
    widths = fit_widths(headers, cells, flexible, terminal_columns()) if on_terminal() else None
    if widths and _columns_together(widths) > terminal_columns():
        _stacked(headers, cells)
    else:
        _aligned(headers, cells, widths or _natural_widths([list(headers), *cells]), right)


def _aligned(headers: Sequence[str], cells: list[list[str]], widths: list[int], right: list[bool]) -> None:
    """Print the headers, broken between words where their column is narrow, and the rows, truncated to the widths."""
    words = [wrapped(header, columns) for header, columns in zip(headers, widths, strict=True)]
    lines = max(map(len, words))
    above = zip(*([""] * (lines - len(each)) + each for each in words), strict=True)
    for number, row in enumerate([*above, *cells]):
        padded = (pad(truncate(cell, widths[at]), widths[at], right=right[at]) for at, cell in enumerate(row))
        line = (" " * GAP).join(padded).rstrip()
        echo(styled(line, "bold") if number < lines else line)


def _columns_together(widths: list[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _natural_widths(rows: list[list[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*rows, strict=True)]


def fit_widths(headers: Sequence[str], cells: list[list[str]], flexible: Sequence[str], room: int) -> list[int]:
    """Return column widths for a table of `room` columns: flexible columns shrink first, then headers are wrapped.

    They are wider than `room` together where even that is not enough: other cells are never truncated.
    """
    widths = _natural_widths([list(headers), *cells])
    least = [max(map(width, header.split()), default=0) for header in headers]
    firm = [max(pair) for pair in zip(least, _natural_widths(cells), strict=True)]
    giving = [headers.index(name) for name in flexible]
    floors = dict(enumerate(firm)) | dict.fromkeys(giving, FLEXIBLE_COLUMNS)
    excess = _columns_together(widths) - room
    for at in dict.fromkeys([*giving, *floors]):
        given = min(max(0, excess), max(0, widths[at] - floors[at]))
        widths[at] -= given
        excess -= given
    return widths


def _stacked(headers: Sequence[str], cells: list[list[str]]) -> None:
    """Print each row as lines of name and value, where the terminal is too narrow for the table."""
    for row in cells:
        echo_fields(dict(zip(headers, row, strict=True)))
        echo()


# ---------------------------------------------------------------- progress


class Progress:
    """Progress bar on standard error, called with `(done, total)`; `total` is None where it is not known.

    The bar appears after a second, and only on a terminal. A context manager: leaving it wipes the bar.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None
        self._began = time.monotonic()
        self._drawn: float | None = None

    def __call__(self, done: int, total: int | None = None) -> None:
        """Redraw the bar, at most ten times a second."""
        now = time.monotonic()
        if self._stream is None or now - self._began < PROGRESS_DELAY_S:
            return
        if self._drawn is None or now - self._drawn >= REDRAW_S:
            self._drawn = now
            text = format_bar(self.label, done, total, now - self._began)
            # One column less: a full line wraps on some terminals, and the next redraw would leave it there.
            self._draw(truncate(text, terminal_columns() - 1))

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


def format_bar(label: str, done: int, total: int | None, elapsed_s: float) -> str:
    """Return the bar as text: share, counts, and the seconds left at the average pace."""
    if not total:
        return f"{label}  {done:,}"
    share = min(1.0, done / total)
    filled = int(share * BAR_COLUMNS)
    left_s = f"  {elapsed_s * (1 - share) / share:.0f} s left" if done else ""
    return f"{label}  {'█' * filled}{'░' * (BAR_COLUMNS - filled)} {share:4.0%}  {done:,} of {total:,}{left_s}"
