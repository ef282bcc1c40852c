"""The question `whatif`: what would differ under other policies, other verdicts, or without items and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankQuestion, QuestionKind
from rbank_es.bank.supposed_differences import WhatIf
from rbank_es.bank.what_if import WhatIfQuestion, what_if
from rbank_es.errors import BadInput
from rbank_es.events.run_events import VerdictValue


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


def find_whatif(
    reader: BankReader, question: SuppositionQuestion, *, into: Path | None = None, force: bool = False
) -> WhatIf:
    """Return what would differ; with `into`, write the read models as they would be. Raises `NotInBank`, `AmbiguousId`,
    `BadPolicy`, `BadPoint`, `BadInput` for positions in the wrong order, and as `rebuild`.
    """
    bank = reader.bank
    since = bank.resolve(question.since)
    until = reader.position if question.until is None else bank.resolve(question.until)
    if until > reader.position:
        raise BadInput(f"until is position {until:,}, later than {reader.position:,}: ask about a later point")
    supposed = WhatIfQuestion(policies=question.policies, verdicts=question.verdicts, without=question.without)
    found = what_if(reader.name, bank.log, supposed, since, until, into=into, force=force, progress=reader.progress)
    return found if reader.bounds.prompts else without_prompts(found)


def without_prompts(found: WhatIf) -> WhatIf:
    """Return an answer without the words of prompts."""
    return replace(found, prompts=tuple(replace(each, before=None, after=None) for each in found.prompts))


QUESTION = QuestionKind(
    about="What would differ under other policies, other verdicts, or without an item or a run.",
    question=SuppositionQuestion,
    answer=WhatIf,
    find=find_whatif,
    is_single=True,
)
