"""The history of a run as a prompt shows it: steps in the form of replies, because models imitate what they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es import limits
from rbank_es.executors.run_step import ENDS, EXAMPLE_ANSWER, EXAMPLE_QUERY, READ, RunStep, repeated_by, stall_of
from rbank_es.executors.tool_call import SUBMIT
from rbank_es.models.prompt import unmarked
from rbank_es.models.scripted_model import rendered
from rbank_es.sparql.example_query import example_class, example_query
from rbank_es.system.text_cuts import cut_middle

if TYPE_CHECKING:
    from rbank_es.executors.executor import RunLimits
    from rbank_es.tools.shared.toolbox import Toolbox


class StepForm(NamedTuple):
    """How an executor's agent writes a step.

    `fields_of` returns the output fields of the reply that a step came from, in order; `code_of` returns the code of a
    step that makes one call.
    """

    fields_of: Callable[[RunStep], Mapping[str, str]]
    code_of: Callable[[str, Mapping[str, Any]], str]


class ShownSteps:
    """The history of one run, in the form of its executor."""

    def __init__(self, form: StepForm, tools: Toolbox, limits: RunLimits) -> None:
        """Show at most `limits.output_chars` characters of each output; `tools` are those of the run."""
        self._form, self._tools, self._limits = form, tools, limits

    def text(self, steps: Sequence[RunStep], by_a_line: int = 0, *, advise: bool = True) -> str:
        """Return the history of a prompt, with advice at a standstill and before the steps are used up.

        The first `by_a_line` steps, and those that failed, take a line each. The latest is shown whole even if it
        failed; of an unreadable reply only the beginning.
        """
        shown = [self._shown(steps[: at + 1], by_a_line, is_last=at == len(steps) - 1) for at in range(len(steps))]
        told = self._advice(steps) if advise else []
        return "\n\n".join([*(shown or ["You have not taken a step yet."]), *told])

    def _shown(self, steps: Sequence[RunStep], by_a_line: int, *, is_last: bool) -> str:
        """Return the latest of these steps as the history shows it."""
        # Only of a result that is shown: an agent that can't see it any more has to ask again.
        step, earlier = steps[-1], repeated_by(steps, by_a_line)
        if len(steps) <= by_a_line or not (is_last or step.fault is None):
            return line_of(step)
        if earlier is not None and step.fault is None:
            return f"Step {step.index}: {had_already(step, earlier)}"
        return self._whole(step)

    def _whole(self, step: RunStep) -> str:
        if not step.code:
            began = " ".join(unmarked(step.reasoning).split())[: limits.STEP_LINE_CHARS]
            return f"Step {step.index}: {unmarked(step.output)}" + (f" It began: {began}" if began else "")
        output = cut_middle(step.output, self._limits.output_chars)
        return f"{self._said(step)}Step {step.index} gave:\n{unmarked(output)}"

    def _said(self, step: RunStep) -> str:
        return rendered({name: unmarked(text) for name, text in self._form.fields_of(step).items()})

    def _advice(self, steps: Sequence[RunStep]) -> list[str]:
        told = advice(steps, self._limits.iterations, self._tools)
        if told is None or told.call is None:
            return [told.words] if told is not None else []
        step = RunStep(index=0, reasoning=told.thought, code=self._form.code_of(*told.call))
        return [f"{told.words} A whole reply that {told.does}:".lstrip(), self._said(step).rstrip()]


class StepAdvice(NamedTuple):
    """What an agent is told beside its history: words, and a call with what it does and the thought behind it."""

    words: str
    call: tuple[str, Mapping[str, Any]] | None = None
    does: str = "works here"
    thought: str = "I look at what there is."


def advice(steps: Sequence[RunStep], iterations: int, tools: Toolbox) -> StepAdvice | None:
    """Return what an agent is told after these steps of at most so many: how to end or go on, where it stands still."""
    left, stall = iterations - len(steps), stall_of(steps)
    unread = unread_result(steps, tools) if left > 1 else None
    ends = READ if unread is not None and left == 2 else ENDS.get(left, "")
    if stall is None and not ends and not _is_lost(steps, tools):
        return None
    words = " ".join(filter(None, (stall.warning if stall is not None else "", ends)))
    if unread is not None:
        return StepAdvice(words, ("sparql_slice", {"result": unread}), "shows its rows", "I look at the rows.")
    # An agent that has a result repeats itself because it doesn't know how to hand it in.
    if left == 1 or tools.session.last_query:
        return StepAdvice(words, submitting_call(tools), "submits", "I hand in what I have found.")
    return StepAdvice(words, working_call(tools))


def _is_lost(steps: Sequence[RunStep], tools: Toolbox) -> bool:
    """Return whether the latest reply could not be read, repeats a call that succeeded, or is code without any tool.

    Models follow a whole reply where they don't follow words: they are shown one at once.
    """
    latest = steps[-1] if steps else None
    if latest is None or latest.fault in (None, "unreadable"):
        return latest is not None and (latest.fault is not None or repeated_by(steps) is not None)
    # Such as `import requests`: a small model writes it again until it is shown a call.
    failed = latest.fault in ("raised", "syntax", "no_code")
    return failed and not any(name in step.code for step in steps for name in tools.functions)


def unread_result(steps: Sequence[RunStep], tools: Toolbox) -> str | None:
    """Return the alias of the latest result where the agent has asked for no rows since its latest query."""
    if not tools.session.last_query or "sparql_slice" not in tools.functions:
        return None
    acts = [each for step in reversed(steps) for each in ("sparql_slice", "sparql_query") if each in step.code]
    alias = tools.session.store.last_alias or ""
    return alias if acts[:1] == ["sparql_query"] and alias.startswith("results") else None


def submitting_call(tools: Toolbox) -> tuple[str, Mapping[str, Any]]:
    """Return the call that ends a run, with the latest query that found something."""
    return SUBMIT, {"answer": EXAMPLE_ANSWER, "sparql": tools.session.last_query or EXAMPLE_QUERY, "evidence": []}


def working_call(tools: Toolbox) -> tuple[str, Mapping[str, Any]] | None:
    """Return a tool and its arguments that find something in the run's source; None where no such call is known."""
    query = example_query(tools.session.source, tools.session.question)
    if query is not None and "sparql_query" in tools.functions:
        return "sparql_query", {"query": query}
    cls = example_class(tools.session.source, tools.session.question)
    if cls is not None and "sparql_peek" in tools.functions:
        return "sparql_peek", {"resource": cls}
    return ("sparql_schema", {}) if "sparql_schema" in tools.functions else None


def had_already(step: RunStep, earlier: RunStep) -> str:
    """Return in a line what an agent is told of a step that repeats a successful one: what follows from the result."""
    try:
        given = json.loads(earlier.output)
    except (ValueError, RecursionError):
        given = None
    following = given.get("next") if isinstance(given, dict) else None
    following = f"{following}, or SUBMIT" if isinstance(following, str) else "SUBMIT what it says, or make another call"
    return f"this is the call of step {earlier.index}, with the same result. You have it already; next: {following}."


def line_of(step: RunStep) -> str:
    """Return a step in a line: the beginnings of its code and of its output."""
    half = limits.STEP_LINE_CHARS // 2
    code, output = (" ".join(unmarked(text).split())[:half] for text in (step.code, step.output))
    return f"Step {step.index} (shortened): " + (f"{code} -> {output}" if code else output)
