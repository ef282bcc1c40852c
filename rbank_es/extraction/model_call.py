"""Asking an extracting model: a bounded number of answers is read, each told why the one before couldn't be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.extraction.candidates import Reading, Usable, read_answer
from rbank_es.extraction.prompts import ENTRIES, REASON, signature
from rbank_es.extraction.trajectory import clip

if TYPE_CHECKING:
    from rbank_es.models.router import Lms

SHOWN_AGAIN_CHARS = 2_000
"""What a model is shown of an answer of its own that could not be used."""

UNREADABLE = (
    f"Your answer could not be read. [[ ## {ENTRIES} ## ]] must hold one JSON list of objects, each with title, "
    "description and content, all texts."
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking: the items, the model's own words where it gave none, and how many of its answers were read.

    `readable` is False where the last of them held no list.
    """

    usable: Usable = Usable()
    reason: str = ""
    tries: int = 0
    readable: bool = False

    @property
    def settled(self) -> bool:
        """Whether it needs no other answer: there are items, or an empty list."""
        return self.readable and (bool(self.usable.items) or not self.usable.flaws)


def ask(
    prompt: str,
    inputs: Mapping[str, str],
    lms: Lms,
    make: Callable[[list[Any]], Usable],
    *,
    most: int = limits.EXTRACTION_ITEMS,
    temperature: float = 1.0,
    tries: int = limits.EXTRACTION_TRIES,
    rollout_id: int | None = None,
) -> Asked:
    """What the model in the role `extractor` draws from the inputs of a prompt, a key of `signatures.PROMPTS`.

    `make` turns the entries of an answer into items. Raises `LmFailed` where the model gives no answer, and
    `MissingExtra` without dspy.
    """
    asked = Asked()
    with lms.context("extractor", temperature=temperature, rollout_id=rollout_id):
        messages = _messages(prompt, inputs, most)
        for number in range(1, tries + 1):
            text = _answered(messages)
            asked = _read(read_answer(text, ENTRIES, REASON), make, number)
            if asked.settled:
                break
            messages = [*messages, *_told(text, asked)]
    return asked


def _messages(prompt: str, inputs: Mapping[str, str], most: int) -> list[dict[str, Any]]:
    from rbank_es.models.adapter import adapter, unmarked

    told = {name: unmarked(text) for name, text in inputs.items()}  # an agent wrote them: they must not open a field
    messages: list[dict[str, Any]] = adapter().format(signature(prompt, most), demos=[], inputs=told)
    return messages


def _answered(messages: list[dict[str, Any]]) -> str:
    """The words of the model's answer, as they are: dspy's own reading of them would refuse more, and mend too much."""
    from rbank_es.models.model import load_dspy

    dspy = load_dspy()
    lm = dspy.settings.lm
    given = {name: value for name, value in lm.kwargs.items() if value is not None}
    request = dspy.lm15.request_from_openai_chat({"model": lm.model, "messages": messages, **given})
    return str(lm(request).text or "")


def _read(reading: Reading, make: Callable[[list[Any]], Usable], number: int) -> Asked:
    if reading.entries is None:
        return Asked(reason=reading.reason, tries=number)
    return Asked(usable=make(reading.entries), reason=reading.reason, tries=number, readable=True)


def _told(text: str, asked: Asked) -> list[dict[str, Any]]:
    """The conversation, continued: the model's answer, and what is wrong with it."""
    flaws = ", ".join(f"entry {number}: {flaw}" for number, flaw in enumerate(asked.usable.flaws, 1))
    wrong = f"No item could be made of your list ({flaws}). {UNREADABLE}" if asked.readable else UNREADABLE
    return [
        {"role": "assistant", "content": clip(text, SHOWN_AGAIN_CHARS)},
        {"role": "user", "content": f"{clip(wrong, SHOWN_AGAIN_CHARS)} Answer again, in the same form."},
    ]
