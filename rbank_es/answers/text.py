"""The question `text`: a block of a text of any length."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from rbank_es import limits
from rbank_es.answers.event import position_of
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.event_texts import EventText, is_prompt, text_block
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.id_lookup import not_in_bank
from rbank_es.errors import NotInBank
from rbank_es.limits import answer_limits


class TextAnswer(BankAnswer, frozen=True, kw_only=True):
    """A block of a text of the event at a position."""

    seq: int
    block: EventText


class TextQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which text, from where on."""

    event: Annotated[str, Meta(min_length=1, description="The event's id, or its position.")]
    path: Annotated[str, Meta(min_length=1, description="The path of the text in the event, as its texts have it.")]
    offset: Annotated[int, Meta(ge=0, description="Characters of the text before the block.")] = 0
    chars: Annotated[
        int, Meta(ge=1, le=answer_limits.TEXT_BLOCK_CHARS_MOST, description="Characters of the block at most.")
    ] = answer_limits.TEXT_BLOCK_CHARS


def find_text(reader: BankReader, question: TextQuestion) -> TextAnswer:
    """Return a block of a text, its `text` None if it was erased. Raises `NotInBank`."""
    seq = position_of(reader, question.event)
    if seq is None:
        raise not_in_bank(reader.view, question.event, ["event"])
    event, path = reader.bank.event_at(seq, resolve=True), question.path
    if not reader.bounds.prompts and is_prompt(event, path):
        raise NotInBank(path[: limits.GIVEN_CHARS], reader.position, kind="text", advice="prompts are left out here")
    block = text_block(event, path, question.offset, question.chars)
    if block is None:
        raise NotInBank(path[: limits.GIVEN_CHARS], reader.position, kind=f"text of the event at {seq:,}:")
    return TextAnswer(bank=reader.name, position=reader.position, seq=seq, block=block)


QUESTION = QuestionKind(
    about="A block of a text of an event, for texts of any length.",
    question=TextQuestion,
    answer=TextAnswer,
    find=find_text,
    whole=("block",),
)
