"""An executor of another package: plain Python, with one JSON object a reply. Its plugin registers it as `plain`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rbank_es.errors import LmFailed
from rbank_es.executors.executor import EXECUTORS, Ending, Executor, RunLimits
from rbank_es.executors.run_step import Fault, RunStep
from rbank_es.executors.submission import FIELDS, Submission
from rbank_es.sandbox.step_outcome import ERROR, SubmissionRefused

if TYPE_CHECKING:
    from rbank_es.executors.executor import Recorder
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.toolbox import Toolbox


def register() -> None:
    """The entry point in the group `rbank_es.plugins`."""
    EXECUTORS.add("plain", "tests.executors.plain_executor:Plain")


INSTRUCTIONS = """{context}

{question}

Reply with one JSON object: {{"thought": ..., "tool": ..., "args": {{...}}}}. Your tools:
- `llm_query(prompt)` - ask a sub-model; `llm_query_batched(prompts)` likewise
- `SUBMIT(answer, sparql, evidence)` - end
{manual}

{history}"""


class Plain(Executor):
    """The executor `plain`: single tool calls, written as JSON."""

    runs_code = False
    frame_chars = 300

    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        from rbank_es.executors.agent_reply import Unreadable, ask_shortened, force_answer
        from rbank_es.executors.sub_calls import sub_calls

        lm = lms.lm("agent", temperature=self.temperature, rollout_id=self.rollout_id)
        functions = {**tools.functions, **sub_calls(lms, limits, tools.session).functions}
        manual, left_out = tools.manual_text(), 0

        def ask(first: int, end: str = "") -> Any:
            history = "\n".join(f"{step.reasoning} {step.code} {step.output}" for step in recorder.steps[first:])
            prompt = INSTRUCTIONS.format(context=context, question=task, manual=manual, history=history + end)
            try:
                reply = lm(prompt)[0]
                return parsed(reply if isinstance(reply, str) else reply["text"])
            except LmFailed as failure:
                if failure.code != "bad_response":
                    raise
                return Unreadable("", unreadable(failure.message), "bad_response")
            except ValueError as error:
                return Unreadable(str(reply)[:1_000], unreadable(str(error)))

        for index in range(1, limits.iterations + 1):
            recorder.next_step()
            action, left_out = ask_shortened(ask, left_out, len(recorder.steps), recorder.giving_way)
            if isinstance(action, Unreadable):
                output, fault, submission = ERROR + action.reason, action.code, None
                step = RunStep(index=index, reasoning=action.reply, output=output, fault=fault)
            else:
                output, fault, submission = called(functions, action["tool"], action.get("args", {}), recorder.told())
                code = json.dumps({"tool": action["tool"], "args": action.get("args", {})})
                step = RunStep(index=index, reasoning=action["thought"], code=code, output=output, fault=fault)
            recorder.step(step)
            if submission is not None:
                return Ending("submitted", submission)
        final = "\nGive the answer now: {" + ", ".join(FIELDS) + "}"
        steps, giving_way = len(recorder.steps), recorder.giving_way
        return force_answer(recorder, lambda: ask_shortened(lambda n: ask(n, final), left_out, steps, giving_way)[0])


def parsed(reply: str) -> dict[str, Any]:
    """The object of a reply: a tool call, or the final fields. Raises ValueError."""
    value = json.loads(reply)
    if not isinstance(value, dict) or not ({"thought", "tool"} <= value.keys() or "answer" in value):
        raise ValueError("it lacks `thought` or `tool`")
    return value


def unreadable(reason: str) -> str:
    return f"Your reply could not be read: {reason}. Write one JSON object."


def called(
    functions: Mapping[str, Any], name: str, arguments: dict[str, Any], told: Iterable[str]
) -> tuple[str, Fault | None, Submission | None]:
    """What a call came to: its output, its fault, a submission."""
    try:
        if name == "SUBMIT":
            submission = Submission.of(arguments, told)
            return submission.output, None, submission
        if name not in functions:
            return f"{ERROR}no tool is called {name!r}", "unknown_tool", None
        reply = functions[name](**arguments)
    except SubmissionRefused as refused:
        return ERROR + str(refused), "refused", None
    except Exception as error:
        return f"{ERROR}{name}: {error}", "tool_failed", None
    failed = isinstance(reply, Mapping) and reply.get("ok") is False
    return json.dumps(reply, default=str), "tool_failed" if failed else None, None
