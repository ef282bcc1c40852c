"""Banks that hold items, runs and guides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rbank_es.bank import Bank
from rbank_es.events import (
    ArtifactMaterialised,
    Decision,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item


def learn(bank: Bank, *items: Item) -> None:
    """Add items, as if a person had given them."""
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    extracted = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts))
    decisions = tuple(Decision(candidate=n, action="add", item=item.id) for n, item in enumerate(items))
    bank.append(MemoriesConsolidated(extraction=extracted.events[0].id, policy="append-1", decisions=decisions))


def value_of(success: bool) -> Literal["success", "failure"]:
    return "success" if success else "failure"


def finish(bank: Bank, run: str, sparql: str, verdicts: Sequence[bool | None], ontology: str = "lights") -> None:
    """A run that submitted a query, was judged by the first verdict and scored by the second."""
    bank.append(
        [RunStarted(run=run, ontology=ontology, task="?"), RunFinished(run=run, outcome="submitted", sparql=sparql)]
    )
    for purpose, verdict in zip(("learning", "scoring"), verdicts, strict=False):
        if verdict is not None:
            bank.append(
                RunJudged(run=run, purpose=purpose, verdict=value_of(verdict), judge="j", judge_version="1", kind="lm")  # type: ignore[arg-type]
            )


def overrule(bank: Bank, run: str, success: bool) -> None:
    bank.append(
        JudgmentOverruled(
            run=run,
            purpose="learning",
            verdict=value_of(success),
            judge="j",
            judge_version="1",
            kind="human",
            by="somebody",
        )
    )


def materialise(bank: Bank, text: str, ontology: str | None = "lights", kind: str = "guide") -> None:
    bank.append(
        ArtifactMaterialised(artifact=f"{kind}-{len(text)}", kind=kind, ontology=ontology, chars=len(text), text=text)
    )
