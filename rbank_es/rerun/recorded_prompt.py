"""Recorded runs that had the very prompt that another run would have had with other memory.

Such a run answers without a model how that goes. A prompt is taken for the same only if all that it is made of is the
same: task, settings, release, ontology, and the context word by word.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import RunStarted
from rbank_es.projections.view import View
from rbank_es.rerun.given_memory import GivenMemory, MemoryUse, memory_use

_FACTS = (
    "task", "ontology", "endpoint", "executor", "model", "layers", "mode", "iterations_max", "bounds", "scripted",
    "release", "commit",
)  # fmt: skip

_AFTER_THE_RUN = frozenset(
    {"judge", "judge_lm", "supervised", "extract", "extract_from", "extractor_lm", "consolidation", "rollouts"}
)
"""Settings of what follows a run, which no prompt of its agent depends on."""


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A run that had a prompt, and its standing verdict for learning; None if it was not judged."""

    run: str
    verdict: str | None = None


def recorded_answers(bank: Bank, view: View, use: MemoryUse, given: GivenMemory) -> tuple[RecordedAnswer, ...]:
    """Return the other runs that had the prompt of this run with the memory `given`, the latest first.

    None for a run that was not made by the loop or that searched by itself: its later prompts depend on memory too.
    """
    wanted = _texts(use, given)
    if wanted is None:
        return ()
    rows = sorted(view.rows("runs", task=str(use.started.task)), key=lambda row: -row["started_seq"])
    return tuple(
        RecordedAnswer(run=row["run"], verdict=row["verdict"])
        for row in rows[: limits.BISECT_RUNS]
        if row["run"] != use.run and _had(bank, use, memory_use(bank, row["run"], view.position), wanted)
    )


def _texts(use: MemoryUse, given: GivenMemory) -> tuple[object, ...] | None:
    """Return the texts of the context with other memory; None where nobody can tell the whole prompt."""
    if not use.is_of_loop or use.context is None or use.repeated:
        return None
    texts = {"L2": given.procedures, "L3": given.guide}
    # A layer that the bank doesn't give stays as it is.
    return tuple(
        texts[layer.layer] if layer.layer in use.layers else text
        for layer, text in zip(use.context.layers, use.context.texts, strict=False)
    )


def _had(bank: Bank, use: MemoryUse, other: MemoryUse, wanted: tuple[object, ...]) -> bool:
    if other.context is None or other.repeated or other.context.texts != wanted:
        return False
    same = all(getattr(use.started, name) == getattr(other.started, name) for name in _FACTS)
    return same and _agents(use.started) == _agents(other.started) and _ontology(bank, use) == _ontology(bank, other)


def _agents(started: RunStarted) -> dict[str, Any]:
    """Return the recorded settings that shape a prompt; with the rollout's index where questions are reworded by it."""
    try:
        settings = msgspec.json.decode(str(started.settings), type=dict[str, Any])
    except msgspec.DecodeError:
        return {"run": started.run}  # equal to no other
    kept = {name: value for name, value in settings.items() if name not in _AFTER_THE_RUN}
    reworded = settings.get("perturbation") not in (None, "none")
    return kept | ({"rollout": started.rollout_index} if reworded else {})


def _ontology(bank: Bank, use: MemoryUse) -> str | None:
    from rbank_es.loop.resources import registered_digest

    return registered_digest(bank, use.started.ontology, use.started.seq)
