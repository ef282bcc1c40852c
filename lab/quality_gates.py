"""Quality gates: what a run must have recorded to count in an experiment. A run that breaks one is marked, not counted.

reproducibility     the log tells what ran: settings with their digest, code version, suite, trial
observability       the log tells what the agent was given: the context with its texts, and the outcome's score
bounded context     each layer has a budget and keeps to it
stable evaluation   the score comes from the right answer of this suite, or from a judge with a version
"""

from __future__ import annotations

from typing import Literal

from rbank_es.events import ContextBuilt, Erased, RunJudged, RunStarted

Gate = Literal["reproducibility", "observability", "bounded context", "stable evaluation"]


def broken_gates(started: RunStarted, context: ContextBuilt | None, scored: RunJudged | None) -> tuple[Gate, ...]:
    """Return the gates that a run breaks, by the events that record its beginning, its context and its score."""
    kept: dict[Gate, bool] = {
        "reproducibility": _is_reproducible(started),
        "observability": scored is not None and _is_observable(started, context),
        "bounded context": context is not None and all(
            layer.budget is not None and layer.chars <= layer.budget for layer in context.layers
        ),
        "stable evaluation": scored is not None and scored.suite == started.suite and bool(scored.judge_version),
    }  # fmt: skip
    return tuple(gate for gate, holds in kept.items() if not holds)


def _is_reproducible(started: RunStarted) -> bool:
    named = started.config_digest and started.release and started.suite and started.trial is not None
    return bool(named) and started.settings is not None


def _is_observable(started: RunStarted, context: ContextBuilt | None) -> bool:
    if context is None or len(context.texts) != len(context.layers):
        return False
    return not any(isinstance(text, Erased) for text in context.texts)
