"""The lines of a transcript: JSON objects, and the refusals of lines that are none, each with its number and reason."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.agents.transcripts.transcript_run import TranscriptRun
from rbank_es.events.readable_text import count
from rbank_es.exchange.importer import LineRefusal
from rbank_es.limits.transcript_limits import TRANSCRIPT_LINE_BYTES

_DECODER = msgspec.json.Decoder()
_BLANK = b"\0 \t\r\n"


class Line(NamedTuple):
    """A line of a file: its number from 1, and its object."""

    number: int
    fields: dict[str, Any]


class LineTally(msgspec.Struct, kw_only=True):
    """What a reader says of a file beside its runs.

    `known` counts lines of a known type, `unknown` those of types that the reader doesn't know, by type. `refusals` has
    the first of the `refused` lines that can't be read. `outside` counts lines of no turn of a user. `withdrawn` are
    the turns that the user took back. `is_cut`: the last line isn't finished, as while the agent still writes.
    """

    lines: int = 0
    known: int = 0
    refused: int = 0
    refusals: list[LineRefusal] = msgspec.field(default_factory=list)
    unknown: Counter[str] = msgspec.field(default_factory=Counter)
    outside: int = 0
    copied: int = 0
    withdrawn: list[TranscriptRun] = msgspec.field(default_factory=list)
    unanswered: int = 0
    is_cut: bool = False

    def refuse(self, number: int, reason: str) -> None:
        """Count a line that can't be read."""
        self.refused += 1
        if len(self.refusals) < limits.REFUSALS_LISTED:
            self.refusals.append(LineRefusal(line=number, reason=reason))

    def sentences(self) -> tuple[str, ...]:
        """Return what people should know of the file, one sentence each."""
        types = ", ".join(f"{number:,} {name}" for name, number in self.unknown.most_common(limits.CHOICES_NAMED))
        told = {
            f"lines of types that this version doesn't know were passed over: {types}": self.unknown.total(),
            f"of no turn of a user: {count(self.outside, 'line')}": self.outside,
            f"copies of another session's lines, which has them itself: {self.copied:,}": self.copied,
            f"taken back by the user, and left out: {count(len(self.withdrawn), 'turn')}": len(self.withdrawn),
            f"without an answer, and left out until there is one: {count(self.unanswered, 'turn')}": self.unanswered,
            "the last line isn't finished": self.is_cut,
        }
        return tuple(sentence for sentence, number in told.items() if number)


def read_lines(raw: Iterable[bytes], tally: LineTally) -> Iterator[Line]:
    """Yield the objects of a file's lines; count the lines, and refuse those that are no JSON object.

    A line is bytes up to and with its line feed. Bytes that are not UTF-8 and halves of characters are replaced.
    """
    for number, line in enumerate(raw, 1):
        if len(line) <= 2 and not line.strip():
            continue
        tally.lines += 1
        try:
            fields = _DECODER.decode(line)
        except (ValueError, RecursionError):
            fields = _decoded_leniently(line, number, tally)
            if fields is None:
                continue
        if isinstance(fields, dict):
            yield Line(number, fields)
        else:
            tally.refuse(number, f"expected a JSON object, got {type(fields).__name__}")


def _decoded_leniently(line: bytes, number: int, tally: LineTally) -> Any:
    """Return the value of a line that is no strict JSON in UTF-8; None where it is refused, or is blank."""
    bare = line.strip(_BLANK)
    if not bare:
        if b"\0" in line:
            tally.refuse(number, f"{line.count(0):,} NUL bytes in the place of a line")
        else:
            tally.lines -= 1
        return None
    if len(line) >= TRANSCRIPT_LINE_BYTES:
        tally.refuse(number, f"the line has over {TRANSCRIPT_LINE_BYTES:,} bytes")
        return None
    try:
        return holdable(json.loads(bare.decode("utf-8", "replace")))
    except (ValueError, RecursionError) as error:
        if line.endswith(b"\n"):
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            tally.refuse(number, f"not JSON: {reason}")
        else:
            tally.is_cut = True
        return None


def holdable(value: Any) -> Any:
    """Return a value without halves of characters and without numbers that no log can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {holdable(key): holdable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [holdable(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
