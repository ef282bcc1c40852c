"""The words that an agent was told by this program: small models hand them in as their answer, which they never are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rbank_es.executors.instructions import FRAME
from rbank_es.executors.run_step import ENDS, EXAMPLE_ANSWER, NO_OUTPUT, READ, UNREAD, RunStep, stall_of
from rbank_es.limits import reply_limits
from rbank_es.sandbox.step_outcome import ERROR

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w+")
_RAISED = re.compile(r"^(?:\[Error\] )?\w*(?:Error|Exception|Exit)\b.*(?:\n  .*)*", re.MULTILINE)
"""What was raised, and the places in the code."""

ALWAYS_TOLD = (EXAMPLE_ANSWER, NO_OUTPUT, READ, *ENDS.values(), *FRAME)
"""Texts of which any prompt may hold one."""


def is_told(answer: str, told: Iterable[str]) -> bool:
    """Return whether an answer begins as our errors do, or is nothing but sentences of texts that the agent was `told`.

    Short ones are never taken for such: a name or a number may stand in any text.
    """
    # Models write errors of ours with other words at their end.
    if answer.lstrip().startswith((ERROR, UNREAD)):
        return True
    given = [*_sentences(answer)]
    if sum(len(each.split()) for each in given) < reply_limits.TOLD_WORDS_LEAST:
        return False
    known = {each for text in (*ALWAYS_TOLD, *told) for each in _sentences(text)}
    return known.issuperset(given)


def _sentences(text: str) -> Iterator[str]:
    """Return the words of each sentence; JSON and Python write the same words."""
    for each in _SENTENCES.split(text):
        if words := " ".join(_WORD.findall(each.casefold())):
            # "[Error]" stands before some of our words, and models leave it out.
            yield words.removeprefix("error ")


def told_by_steps(steps: Sequence[RunStep]) -> Iterator[str]:
    """Yield the texts of steps that are not the source's: why they failed, and that they stand still."""
    for step in steps:
        if step.fault in ("raised", "syntax"):
            # The output of its code stands before it.
            yield from _RAISED.findall(step.output)
        elif step.fault is not None:
            yield step.output
    if (stall := stall_of(steps)) is not None:
        yield stall.warning
