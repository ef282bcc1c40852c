"""The question `whatif`: what would differ under other policies, other verdicts, or without items and runs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from rbank_es.answers.shared.bank_reader import BankReader, shortened
from rbank_es.answers.shared.question import BankQuestion, QuestionKind
from rbank_es.bank.supposed_differences import PromptDifference, WhatIf
from rbank_es.bank.what_if import WhatIfQuestion, what_if
from rbank_es.errors import BadInput
from rbank_es.events.run_events import VerdictValue

Chars = Annotated[int, Meta(ge=1)]


class SuppositionQuestion(BankQuestion, frozen=True, kw_only=True):
    """What is supposed, and from when until when; without any supposition, what is due would differ."""

    policies: Annotated[
        dict[str, Any], Meta(description="Policies in the place of the recorded ones, a table of settings by kind.")
    ] = {}
    verdicts: Annotated[dict[str, VerdictValue], Meta(description="Other verdicts, by run.")] = {}
    without: Annotated[
        tuple[str, ...], Meta(description="Ids of items and runs that are taken never to have been there.")
    ] = ()
    since: Annotated[str | int, Meta(description="The point from which it is supposed; by default the beginning.")] = 0
    until: Annotated[
        str | int | None, Meta(description="The last point to look at; null: the point that is asked about.")
    ] = None
    chars: Annotated[Chars | None, Meta(description="Characters of each title and prompt at most; null: whole.")] = None


def find_whatif(reader: BankReader, question: SuppositionQuestion) -> WhatIf:
    """Return what would differ. Raises `NotInBank`, `AmbiguousId`, `BadPolicy`, `BadPoint`; `BadInput` for positions in
    the wrong order, and for a file of read models.
    """
    bank = reader.bank
    since = bank.resolve(question.since)
    until = reader.position if question.until is None else bank.resolve(question.until)
    if until > reader.position:
        raise BadInput(f"until is position {until:,}, later than {reader.position:,}: ask about a later point")
    supposed = WhatIfQuestion(policies=question.policies, verdicts=question.verdicts, without=question.without)
    found = what_if(reader.name, bank.log, supposed, since, until, progress=reader.progress)
    return _shown(reader, found, question.chars)


def _shown(reader: BankReader, found: WhatIf, asked: int | None) -> WhatIf:
    """Return an answer as a face allows it: titles and prompts at most so long, prompts perhaps left out."""
    title_chars = reader.chars(asked)
    items = (replace(each, title=shortened(each.title, title_chars) or "") for each in found.items)
    decisions = (replace(each, title=shortened(each.title, title_chars) or "") for each in found.decisions)
    prompts = (_prompt(reader, each, reader.text_chars(asked)) for each in found.prompts)
    return replace(found, items=tuple(items), decisions=tuple(decisions), prompts=tuple(prompts))


def _prompt(reader: BankReader, each: PromptDifference, chars: int | None) -> PromptDifference:
    if not reader.bounds.prompts:
        return replace(each, before=None, after=None)
    return replace(each, before=shortened(each.before, chars), after=shortened(each.after, chars))


QUESTION = QuestionKind(
    about="What would differ under other policies, other verdicts, or without an item or a run.",
    question=SuppositionQuestion,
    answer=WhatIf,
    find=find_whatif,
)
