"""ATIF trajectories: one JSON document of one run, read strictly; and the outcome of the trial that they belong to.

The form has versions, and forbids fields that it doesn't name; a document of another version is refused by name, a
broken one with all its faults. There is no outcome inside: the verdict lies beside it, in the files of its trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rbank_es.agents.transcripts.transcript_run import (
    ModelMessage,
    ToolUse,
    TranscriptRun,
    TrialReward,
    text_in,
    text_or_none,
)
from rbank_es.errors import BadImport
from rbank_es.limits import GIVEN_CHARS, REFUSALS_LISTED

FORM = "atif"
VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))

_Fields = Mapping[str, tuple[type, ...]]
_TEXT, _OBJECT, _LIST, _COUNT, _NUMBER = (str,), (dict,), (list,), (int,), (int, float)

_TRAJECTORY: _Fields = {
    **dict.fromkeys(("schema_version", "session_id", "trajectory_id", "notes", "continued_trajectory_ref"), _TEXT),
    **{"agent": _OBJECT, "steps": _LIST, "final_metrics": _OBJECT, "subagent_trajectories": _LIST, "extra": _OBJECT},
}
_AGENT: _Fields = {"name": _TEXT, "version": _TEXT, "model_name": _TEXT, "tool_definitions": _LIST, "extra": _OBJECT}
_STEP: _Fields = {
    **{"step_id": _COUNT, "timestamp": _TEXT, "source": _TEXT, "message": (str, list), "model_name": _TEXT},
    **{"reasoning_effort": (str, int, float), "reasoning_content": _TEXT, "tool_calls": _LIST, "observation": _OBJECT},
    **{"metrics": _OBJECT, "is_copied_context": (bool,), "llm_call_count": _COUNT, "extra": _OBJECT},
}
_CALL: _Fields = {"tool_call_id": _TEXT, "function_name": _TEXT, "arguments": _OBJECT, "extra": _OBJECT}
_OBSERVATION: _Fields = {"results": _LIST, "extra": _OBJECT}
_RESULT: _Fields = {
    **{"source_call_id": _TEXT, "content": (str, list), "subagent_trajectory_ref": _LIST, "extra": _OBJECT}
}
_REFERENCE: _Fields = dict.fromkeys(("session_id", "trajectory_id", "trajectory_path"), _TEXT) | {"extra": _OBJECT}
_METRICS: _Fields = {
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), _COUNT),
    **{"cost_usd": _NUMBER, "prompt_token_ids": _LIST, "completion_token_ids": _LIST, "logprobs": _LIST},
    "extra": _OBJECT,
}
_SOURCES = ("system", "user", "agent")


def is_atif(fields: Mapping[str, Any]) -> bool:
    """Return whether an object is a trajectory of this form, of whatever version."""
    return str(fields.get("schema_version", "")).startswith("ATIF-")


def atif_runs(path: str, document: Mapping[str, Any], trial: TrialReward | None = None) -> Iterator[TranscriptRun]:
    """Yield the run of a trajectory, then those of its sub-agents. `trial` is the outcome of the first alone.

    Raises `BadImport` for a version that isn't known, and with every fault of a document.
    """
    version = document.get("schema_version")
    if str(version) not in VERSIONS:
        told = str(version)[:GIVEN_CHARS]
        raise BadImport(path, f"an ATIF trajectory of the version {told!r}; known are {VERSIONS[0]} to {VERSIONS[-1]}")
    faults = list(_faults(document, "$"))
    if faults:
        raise BadImport(path, f"a broken {version} trajectory: {'; '.join(faults[:REFUSALS_LISTED])}")
    yield _run_of(document, trial)
    for inner in document.get("subagent_trajectories") or ():
        yield _run_of(inner, None, parent=document)


def trial_outcome(result: Mapping[str, Any], reward: float | None) -> TrialReward:
    """Return the outcome of a trial: of its `result.json`, and the reward in a file of its own where that has none.

    A trial that an exception stopped has no reward, nor has one whose reward isn't valid.
    """
    task, trial = text_or_none(result.get("task_name")), text_or_none(result.get("trial_name"))
    stopped = result.get("exception_info")
    if stopped:
        told = stopped.get("exception_type") if isinstance(stopped, dict) else stopped
        return TrialReward(task=task, trial=trial, error=str(told or "an exception")[:GIVEN_CHARS])
    if result.get("reward_valid") is False:
        return TrialReward(task=task, trial=trial, error="its reward isn't valid")
    verified = result.get("verifier_result")
    rewards = verified.get("rewards") if isinstance(verified, dict) else None
    found = reward_in(rewards)
    return TrialReward(task=task, trial=trial, reward=found if found is not None else reward)


def reward_in(rewards: Any) -> float | None:
    """Return a reward: that named `reward`, else the least of several; None where there is none."""
    given = rewards if isinstance(rewards, dict) else {"reward": rewards}
    numbers = {key: float(value) for key, value in given.items() if type(value) in (int, float, bool)}
    return numbers.get("reward", min(numbers.values(), default=None))


# ---------------------------------------------------------------- the run


def _run_of(
    document: Mapping[str, Any], trial: TrialReward | None, parent: Mapping[str, Any] | None = None
) -> TranscriptRun:
    agent, steps = document["agent"], [step for step in document["steps"] if not step.get("is_copied_context")]
    session = text_or_none(document.get("session_id")) or ""
    trajectory = text_or_none(document.get("trajectory_id")) or ""
    above = text_or_none((parent or {}).get("session_id")) or text_or_none((parent or {}).get("trajectory_id"))
    prompts = [text for step in steps if step["source"] == "user" and (text := text_in(step["message"]))]
    times = [step["timestamp"] for step in steps if step.get("timestamp")]
    first = steps[0] if steps else {}
    run = TranscriptRun(
        form=FORM,
        host=agent["name"],
        key=(session or above or "", trajectory, first.get("timestamp") or "", text_in(first.get("message"))),
        session=session or trajectory,
        line=1,
        prompts=prompts or [""],
        began=times[0] if times else None,
        ended=times[-1] if times else None,
        release=text_or_none(agent.get("version")),
        model=text_or_none(agent.get("model_name")),
        agent=trajectory or "sub-agent" if parent is not None else None,
        parent=above,
        trial=trial,
        # The document is whole.
        ending="done",
        extra={"schema_version": document["schema_version"]}
        | ({"notes": document["notes"]} if document.get("notes") else {}),
    )
    if trial is not None and trial.error:
        run.ending, run.error = "failed", trial.error
    for step in steps:
        if step["source"] == "agent":
            _add_step(run, step)
        elif step["source"] == "system":
            run.give(text_in(step["message"]))
    return run


def _add_step(run: TranscriptRun, step: Mapping[str, Any]) -> None:
    at, used = step.get("timestamp"), step.get("metrics") or {}
    said = ModelMessage(
        id=f"step {step['step_id']}",
        model=step.get("model_name") or run.model,
        at=at,
        text=text_in(step["message"]),
        reasoning=step.get("reasoning_content") or "",
        cost_usd=used.get("cost_usd"),
    )
    said.use(used, "prompt_tokens", "completion_tokens", "cached_tokens")
    # A step of the agent's program alone is none of the model's.
    if step.get("llm_call_count") != 0:
        run.add(said)
    for call in step.get("tool_calls") or ():
        run.add(ToolUse(id=call["tool_call_id"], name=call["function_name"], arguments=call["arguments"], at=at))
    for result in (step.get("observation") or {}).get("results") or ():
        found = run.call(result.get("source_call_id") or "")
        if found is None:
            continue
        found.answer(text_in(result.get("content")), at)
        found.is_error = (result.get("extra") or {}).get("tool_result_is_error") is True
        for reference in result.get("subagent_trajectory_ref") or ():
            found.agent = text_or_none(reference.get("trajectory_id")) or text_or_none(reference.get("trajectory_path"))


# ---------------------------------------------------------------- its faults


def _faults(document: Any, place: str) -> Iterator[str]:
    """Yield every fault of a trajectory, with its place."""
    yield from _of_object(document, _TRAJECTORY, ("schema_version", "agent", "steps"), place)
    if not isinstance(document, dict):
        return
    yield from _of_object(document.get("agent"), _AGENT, ("name", "version"), f"{place}.agent")
    steps = document.get("steps")
    if isinstance(steps, list):
        if not steps:
            yield f"{place}.steps has none"
        for number, step in enumerate(steps, 1):
            yield from _of_step(step, number, f"{place}.steps[{number - 1}]")
    inner = document.get("subagent_trajectories")
    for number, each in enumerate(inner if isinstance(inner, list) else ()):
        yield from _faults(each, f"{place}.subagent_trajectories[{number}]")


def _of_step(step: Any, number: int, place: str) -> Iterator[str]:
    yield from _of_object(step, _STEP, ("step_id", "source", "message"), place)
    if not isinstance(step, dict):
        return
    if step.get("step_id") != number:
        yield f"{place}.step_id is {step.get('step_id')!r:.40}, expected {number}"
    if str(step.get("source")) not in _SOURCES:
        yield f"{place}.source is none of {', '.join(_SOURCES)}"
    calls = step.get("tool_calls") if isinstance(step.get("tool_calls"), list) else []
    for index, call in enumerate(calls or ()):
        yield from _of_object(
            call, _CALL, ("tool_call_id", "function_name", "arguments"), f"{place}.tool_calls[{index}]"
        )
    known = [call.get("tool_call_id") for call in calls or () if isinstance(call, dict)]
    if step.get("metrics") is not None:
        yield from _of_object(step["metrics"], _METRICS, (), f"{place}.metrics")
    seen = step.get("observation")
    if seen is None:
        return
    yield from _of_object(seen, _OBSERVATION, ("results",), f"{place}.observation")
    results = seen.get("results") if isinstance(seen, dict) else None
    for index, result in enumerate(results if isinstance(results, list) else ()):
        inside = f"{place}.observation.results[{index}]"
        yield from _of_object(result, _RESULT, (), inside)
        references = result.get("subagent_trajectory_ref") if isinstance(result, dict) else None
        for number, reference in enumerate(references if isinstance(references, list) else ()):
            yield from _of_object(reference, _REFERENCE, (), f"{inside}.subagent_trajectory_ref[{number}]")
        source = result.get("source_call_id") if isinstance(result, dict) else None
        if source is not None and source not in known:
            yield f"{inside}.source_call_id {source!r:.40} is no call of its step"


def _of_object(value: Any, fields: _Fields, needed: tuple[str, ...], place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place} is {type(value).__name__}, expected an object"
        return
    for key in needed:
        if value.get(key) is None:
            yield f"{place}.{key} is missing"
    for key, inner in value.items():
        if key not in fields:
            yield f"{place}.{key[:GIVEN_CHARS]} is no field of this form"
        # True is an int, for Python alone.
        elif inner is not None and (
            not isinstance(inner, fields[key]) or (type(inner) is bool and bool not in fields[key])
        ):
            yield f"{place}.{key} is {type(inner).__name__}"


def decode_document(path: str, data: bytes) -> dict[str, Any]:
    """Return the object of a file. Raises `BadImport`."""
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadImport(path, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadImport(path, f"expected a JSON object, got {type(value).__name__}")
    return value
