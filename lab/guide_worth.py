"""The worth of a guide: what writing it cost, how much of what it names exists, and after how many tasks it has paid.

The cost is in the log of the bank into which the guide was written, before the trials were forked from it. A guide has
paid for itself after so many tasks: its cost, divided by the mean saving of a task over trials. It may save nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from rbank_es.events import ArtifactMaterialised
from rbank_es.events.run_events import VerdictValue
from rbank_es.events.run_totals import known_sum
from rbank_es.lab.run_rows import NO_RATINGS

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.sparql.data_source import Source

COSTS = ("lm_calls", "tokens", "cost_usd")
"""The metrics in which a guide costs something once, and may save something in each run."""


class GuideWorth(Struct, frozen=True, kw_only=True):
    """A guide and its cost. None is unknown.

    grounded_share  of the IRIs and prefixed names in its text, those that the ontology has
    rated           by a model and a rubric, 0 to 1
    verdict         of the judge that was asked about the run that wrote it: `rbank-es judge run`
    """

    artifact: str
    run: str | None
    chars: int
    lm_calls: int | None
    tokens: int | None
    cost_usd: float | None
    grounded_share: float | None
    rated: float | None = None
    verdict: VerdictValue | None

    def break_even(self, metric: str, without: float | None, given: float | None) -> int | None:
        """Return after how many tasks the guide has paid for its cost, by the means of a metric without and with it.

        None where that is unknown, or where it saves nothing: then it never has.
        """
        cost: float | None = getattr(self, metric)
        if cost is None or without is None or given is None or without <= given:
            return None
        return math.ceil(cost / (without - given))


def guide_worths(
    bank: Bank, source: Source | None = None, ratings: Mapping[str, float] = NO_RATINGS
) -> Iterator[GuideWorth]:
    """Yield the guides in a bank, in the order in which they were written; terms are looked up in the source.

    `ratings` are by the ids of the events that hold the guides.
    """
    verdicts = bank.state().verdicts
    for event in bank.events(types={"artifact_materialised"}, resolve=True):
        if not isinstance(event, ArtifactMaterialised) or event.kind != "guide":
            continue
        judged = verdicts.get((event.run or "", "learning"))
        yield GuideWorth(
            artifact=event.artifact,
            run=event.run,
            chars=event.chars,
            lm_calls=event.lm_calls,
            tokens=known_sum((event.tokens_in, event.tokens_out)),
            cost_usd=event.cost_usd,
            grounded_share=_grounded_share(bank.text(event.text), source),
            rated=ratings.get(event.id),
            verdict=judged.verdict if judged is not None else None,
        )


def _grounded_share(text: str | None, source: Source | None) -> float | None:
    from rbank_es.judging.source_evidence import ground

    return ground(None, text, source).answer_share if text and source is not None else None
