"""The repetition that a text ends in: models that miss their end recite one passage until a bound ends them."""

from __future__ import annotations

from typing import NamedTuple

from rbank_es.limits import reply_limits


class Repetition(NamedTuple):
    """The end of a text: `times` copies of a passage of `period` characters, the last perhaps begun only."""

    period: int
    times: int

    def __str__(self) -> str:
        return f"its end repeats {self.period:,} characters {self.times:,} times"


def repetition_of(text: str) -> Repetition | None:
    """Return the repetition in which a text ends; None if that could be meant.

    It is one if a passage of at most `REPEATED_PERIOD_CHARS` is repeated to the letter `REPEATED_TIMES` times, and over
    `REPEATED_CHARS` characters in all: rows of a table, statements and triples differ in something, and a ruler or a
    list of equal numbers is shorter. Time is linear in those limits, whatever the length of the text.
    """
    most = max(reply_limits.REPEATED_CHARS, reply_limits.REPEATED_TIMES * reply_limits.REPEATED_PERIOD_CHARS)
    end = text[-most:][::-1]
    found = None
    # The smallest period of each beginning of the reversed end, which is what the text ends in (Knuth, Morris, Pratt).
    borders, border = [0] * len(end), 0
    for at in range(1, len(end)):
        while border and end[at] != end[border]:
            border = borders[border - 1]
        border += end[at] == end[border]
        borders[at] = border
        chars, period = at + 1, at + 1 - border
        enough = chars >= reply_limits.REPEATED_CHARS and chars >= period * reply_limits.REPEATED_TIMES
        if enough and period <= reply_limits.REPEATED_PERIOD_CHARS:
            found = Repetition(period, chars // period)
    return found
