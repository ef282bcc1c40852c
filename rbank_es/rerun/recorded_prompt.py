"""Recorded runs that had the very prompt that another run would have had with other memory.

Such a run answers without a model how that goes. A prompt is taken for the same only if all that it is made of is the
same: task, settings, release, ontology, and the context word by word.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.answers.shared.bisection_answer import RecordedAnswer
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


class RecordedPrompts:
    """The runs whose prompts differ from that of one run in what the bank gave to them, at most."""

    def __init__(self, bank: Bank, view: View, use: MemoryUse) -> None:
        """Look for other runs of the same task, the latest first, up to the position of the view.

        None are found for a run that the loop didn't make, or that searched by itself: its later prompts depend on
        memory too.
        """
        self._use, self._runs = use, list[tuple[MemoryUse, RecordedAnswer]]()
        if not use.is_of_loop or use.repeated:
            return
        rows = sorted(view.rows("runs", task=str(use.started.task)), key=lambda row: -row["started_seq"])
        for row in rows[: limits.BISECT_RUNS]:
            other = memory_use(bank, row["run"], view.position)
            if other.run != use.run and _same_but_for_memory(bank, use, other):
                self._runs.append((other, RecordedAnswer(run=other.run, verdict=row["verdict"])))

    def with_memory(self, given: GivenMemory) -> tuple[RecordedAnswer, ...]:
        """Return the runs that had the prompt which the run would have had if the bank had given it this."""
        wanted = _texts(self._use, given)
        return tuple(answer for other, answer in self._runs if other.context and other.context.texts == wanted)


def _texts(use: MemoryUse, given: GivenMemory) -> tuple[object, ...]:
    """Return the texts of the context with other memory; a layer that the bank doesn't give stays as it is."""
    if use.context is None:
        return ()
    texts = {"L2": given.procedures, "L3": given.guide}
    return tuple(
        texts[layer.layer] if layer.layer in use.layers else text
        for layer, text in zip(use.context.layers, use.context.texts, strict=False)
    )


def _same_but_for_memory(bank: Bank, use: MemoryUse, other: MemoryUse) -> bool:
    if not other.is_of_loop or other.repeated:
        return False
    same = all(getattr(use.started, name) == getattr(other.started, name) for name in _FACTS)
    return same and _agents(use.started) == _agents(other.started) and _ontology(bank, use) == _ontology(bank, other)


def _agents(started: RunStarted) -> dict[str, Any]:
    """Return the recorded settings that shape a prompt; with the rollout's index where questions are reworded by it."""
    try:
        settings = msgspec.json.decode(str(started.settings), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {"run": started.run}  # equal to no other
    kept = {name: value for name, value in settings.items() if name not in _AFTER_THE_RUN}
    reworded = settings.get("perturbation") not in (None, "none")
    return kept | ({"rollout": started.rollout_index} if reworded else {})


def _ontology(bank: Bank, use: MemoryUse) -> str | None:
    from rbank_es.bank.ontology_registrations import registered_digest

    return registered_digest(bank, use.started.ontology, use.started.seq)
