"""What to do about a failure, by error code: one home for the failures of models and for the ends of runs."""

from __future__ import annotations

MODEL_HINTS = {
    "unknown_model": "Check the model's name, and the address if one was given",
    "missing_key": "Set it and start again; no call was made",
    "wrong_key": "Check the key in the environment",
    "unreachable": "Check the address and the network, then run again",
    "timeout": "Give the model more time with --lm-arg timeout=SECONDS, or choose a faster one",
    "rate_limited": "Wait, then run again, or use fewer rollouts",
    "no_credit": "Check the account with the provider",
    "refused": "Check the model's parameters",
    "no_tools": "Choose another model or server, or --executor react, which needs nothing but text",
    "context_too_long": "Choose a model that reads more, or smaller budgets",
    "server_error": "The provider has a fault; run again later",
    "bad_response": "If it happens again, check that the address is that of a model",
    "cut": "Allow longer answers with --lm-arg max_tokens=N",
    "response_too_long": "Limit it with --lm-arg max_tokens=N",
    "request_too_long": "Use smaller budgets, or fewer iterations",
    "interrupted": "It was stopped from outside",
    "unexpected": "This is a defect of the code that calls the model; --debug shows where it happened",
    "bad_function": "Give a function from the prompt's text to the reply's text, or an engine of dspy's own form",
    "script_mismatch": "Change the script to what really happens",
    "replay_miss": "This release can't re-execute the run from its events",
    "not_recorded": "Make the bank writable again, then run again",
}
"""What to do about a failed call of a model."""

_PROMPTS = "`rbank-es show BANK RUN --prompts` shows what it was asked and what it replied"

_NO_SANDBOX = (
    "sandbox_failed", "no_dspy", "wrong_dspy", "no_deno", "wrong_deno", "cold", "no_cache", "wrong_part", "broken",
)  # fmt: skip

_ENDS = {
    "forced_at_limit": "Allow more steps with --iterations N, or more of what was spent with --bound, or choose a "
    f"stronger model; {_PROMPTS}",
    "stalled": "The model made one mistake or one call again and again, or used no tool: choose a stronger model or "
    f"another executor, or longer replies if they were cut (--lm-arg max_tokens=N); {_PROMPTS}",
    "unreadable": f"The model doesn't keep to the form that is asked of it: {_PROMPTS}; choose a stronger model or "
    "another executor",
    "bound_spent": "Allow more with --bound NAME=N, or fewer rollouts",
    "sandbox_exhausted": "The agent's code took more than the sandbox gives: choose a stronger model or the executor "
    "react",
    **dict.fromkeys(_NO_SANDBOX, "rbank-es doctor names what the sandbox lacks"),
    "replay_differs": "This release can't re-execute the run from its events",
    "interrupted": "The same command runs its task again",
}
"""What to do about a run that ended otherwise than by an answer, by its error code or its outcome."""


def ending_hint(outcome: str | None, error_code: str | None) -> str | None:
    """Return what to do about runs with such an end; None where the agent submitted an answer.

    A run without an outcome has no recorded end.
    """
    if outcome == "submitted":
        return None
    if outcome is None:
        return "It is at work, or its process was killed: the same command ends it and runs its task again"
    hint = _ENDS.get(error_code or outcome) or MODEL_HINTS.get(error_code or "") or _ENDS.get(outcome)
    return hint or f"See why: {_PROMPTS}"
