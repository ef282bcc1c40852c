"""The executor `tools`: the chat protocol's own tool calls, several a reply, made in their order. Loads no dspy.

The history is the conversation: what the model said, its calls, the answer to each. What a server would refuse is sent
again otherwise than it came: ids are this module's, names keep to the protocol's letters, arguments that can't be read
are left out. Else one bad reply would spoil every later request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rbank_es import limits as lim
from rbank_es.errors import LmFailed
from rbank_es.executors.agent_reply import NO_ANSWER, Unreadable, ask_shortened, force_answer, take_steps
from rbank_es.executors.executor import Ending, Executor, Recorder, RunLimits
from rbank_es.executors.reply_calls import Call, calls_of, why_no_call
from rbank_es.executors.run_step import UNREAD, Fault, RunStep, repeated_by
from rbank_es.executors.step_history import advice, had_already
from rbank_es.executors.sub_calls import sub_calls
from rbank_es.executors.submission import Submission
from rbank_es.executors.tool_call import SUBMIT, CallOutcome, call_tool, failed_call, json_text
from rbank_es.executors.tool_schema import MANUAL_TOOL, SUBMIT_TOOL, call_schema, rare_tools, tool_schemas
from rbank_es.limits import reply_limits
from rbank_es.models.call_recorder import NO_WORD
from rbank_es.models.lm_request import LmMessage, LmResponse, Tool
from rbank_es.sandbox.step_outcome import ERROR
from rbank_es.system.text_cuts import cut, cut_middle

if TYPE_CHECKING:
    from rbank_es.models.run_models import Lms
    from rbank_es.tools.shared.toolbox import Toolbox

_INSTRUCTIONS = """Answer the question from the data that the tools reach.

You work in steps. In each you call one tool, or several that don't need each other's answers, and see what they answer.
There is no Python here: where instructions speak of code or variables, call the tools one by one. `llm_query` and
`llm_query_batched` ask a sub-model what takes reading, {subcalls} prompts in all. SUBMIT hands in the result, and ends.
{rare}

{context}"""

_RARE = "Also there, once you asked `tools` for the manual of one: {names}."

_NEXT = "Call the tool that you need next, or SUBMIT with your answer."
_FORCED = "Your steps are used up: call SUBMIT now, with the answer that they lead to."

Turn = tuple[LmMessage, LmMessage]
"""What the model said in a step, and what it was told."""


class Tools(Executor):
    """The executor `tools`: native calls of tools, with the whole conversation in every prompt."""

    runs_code = False
    calls_tools = True
    uses_dspy = False
    frame_chars = 2_550

    def work(self, task: str, context: str, tools: Toolbox, recorder: Recorder, lms: Lms, limits: RunLimits) -> Ending:
        """Take steps until one submits or there are no more."""
        more = sub_calls(lms, limits, tools.session).functions
        names = ", ".join(rare_tools(tools))
        rare = _RARE.format(names=names) if names else ""
        system = _INSTRUCTIONS.format(subcalls=limits.subcalls, rare=rare, context=context)

        def ask(messages: list[LmMessage], offered: Sequence[Tool], forced: Sequence[Tool]) -> LmResponse:
            schema = call_schema(forced) if forced else None
            return lms.converse("agent", system, messages, offered, forced=forced, schema=schema, **self.sampling)

        run = _Conversation(task, tools, more, recorder, limits, ask)
        force = partial(force_answer, recorder, run.forced)
        return take_steps(recorder, limits.iterations, lambda _: run.step(), force)


class _Conversation:
    """One run: its turns so far."""

    def __init__(
        self,
        task: str,
        tools: Toolbox,
        more: dict[str, Callable[..., Any]],
        recorder: Recorder,
        limits: RunLimits,
        ask: Callable[[list[LmMessage], Sequence[Tool], Sequence[Tool]], LmResponse],
    ) -> None:
        self._functions: dict[str, Callable[..., Any]] = {**tools.functions, **more}
        self._tools, self._more = tools, more
        self._asked: set[str] = set()
        self._task, self._recorder, self._converse = task, recorder, ask
        self._meter = tools.session.meter
        self._output_chars, self._iterations = limits.output_chars, limits.iterations
        self._turns: list[Turn | tuple[()]] = []
        self._left_out = 0
        self._explained = ""
        self._without_calls = 0
        self._may_require = True
        if told := self._advice():
            self._task = f"{task}\n\n{told}"

    def step(self) -> Submission | None:
        """Take a step: ask, make the calls, record them. Return what was submitted."""
        index = self._recorder.next_step()
        given = self._ask()
        if isinstance(given, Unreadable):
            self._explain(index, given)
            return None
        self._recorder.begin_code()
        made = self._make(calls_of(given, self._functions))
        self._asked |= {str(call.arguments.get("name")) for call, _ in made if call.name == MANUAL_TOOL}
        done = [outcome for _, outcome in made]
        submission = done[-1].submission
        self._recorder.step(
            RunStep(
                index=index,
                reasoning=given.text,
                code="\n".join(json_text({"tool": call.name, "args": call.arguments}) for call, _ in made),
                output=submission.output if submission is not None else "\n".join(each.output for each in done),
                # A step in which one call succeeded did not fail.
                fault=done[0].fault if all(each.fault for each in done) else None,
            )
        )
        self._remember(_turn(index, given, self._told(made), self._output_chars))
        return submission

    def _told(self, made: list[tuple[Call, CallOutcome]]) -> list[tuple[Call, CallOutcome]]:
        """Return the calls of a step with what the model is told: of those that it made before, that it did."""
        step, earlier = self._recorder.steps[-1], repeated_by(self._recorder.steps, self._left_out)
        if earlier is None or step.fault is not None:
            return made
        return [(call, CallOutcome(had_already(step, earlier))) for call, _ in made]

    def forced(self) -> Any:
        """Return the fields of the answer that is asked for at a limit, or `Unreadable`."""
        given = self._ask(_FORCED)
        if isinstance(given, Unreadable):
            return given
        submits = (each for each in calls_of(given, self._functions) if each.name.upper() == SUBMIT and not each.wrong)
        submitted = next(submits, None)
        return submitted.arguments if submitted is not None else Unreadable(given.text, "it does not call SUBMIT")

    # ---------------------------------------------------------------- calls

    def _make(self, calls: Sequence[Call]) -> list[tuple[Call, CallOutcome]]:
        """Make calls in their order, up to the one that submits. Calls past the bound are not made, which is told."""
        made: list[tuple[Call, CallOutcome]] = []
        for call in calls[: reply_limits.REPLY_CALLS]:
            made.append((call, self._outcome(call)))
            if made[-1][1].submission is not None:
                return made
        if left := len(calls) - len(made):
            last, outcome = made[-1]
            note = f"\n({left} more calls were not made: a reply may have {reply_limits.REPLY_CALLS} of them.)"
            made[-1] = last, outcome._replace(output=outcome.output + note)
        return made

    def _outcome(self, call: Call) -> CallOutcome:
        if call.wrong:
            return failed_call("bad_arguments", call.wrong, "give a JSON object of arguments by name", "tool_failed")
        # Calls of one reply wait for each other, each as long as a tool may take.
        if self._meter.step_left_s <= 0:
            return failed_call("step_wall_s", "the time of this step is over", "call it in the next", "tool_failed")
        return call_tool(self._functions, call.name, call.arguments, self._recorder.told())

    def _explain(self, index: int, given: Unreadable) -> None:
        told = f"{ERROR}{given.reason}"
        self._recorder.step(RunStep(index=index, reasoning=given.reply, output=told, fault=given.code))
        # Its words are not shown to it, because models say again what they read of themselves.
        self._turns.append(())
        self._without_calls += 1
        # With its number, because a model at temperature 0 answers the same words with the same reply.
        self._explained = "\n\n".join(filter(None, (f"Step {index}: {told}", self._advice())))

    def _remember(self, turn: Turn) -> None:
        """Add a turn to the conversation, with what the model is told for its next step."""
        said, told = turn
        words, self._explained = self._advice(), ""
        self._turns.append((said, told.telling(words) if words else told))

    def _advice(self) -> str:
        told = advice(self._recorder.steps, self._iterations, self._tools)
        if told is None or told.call is None:
            return told.words if told is not None else ""
        # As most templates write a call: a model that copies it as text has made it.
        call = json_text({"name": told.call[0], "arguments": told.call[1]})
        return f"{told.words} A call that {told.does}: {call}".lstrip()

    # ---------------------------------------------------------------- requests

    def _ask(self, told: str = "") -> LmResponse | Unreadable:
        """Ask the model about the conversation so far; for its answer, where it is `told` to give it."""

        def ask_with(left_out: int) -> LmResponse | Unreadable:
            try:
                given = self._request(self._messages(left_out, told), [SUBMIT_TOOL] if told else [])
            except LmFailed as failure:
                if failure.code not in NO_ANSWER:
                    raise
                return _unreadable("", failure.message, "bad_response" if failure.code == NO_WORD else "unreadable")
            if calls_of(given, self._functions):
                return given
            return _unreadable(given.text, why_no_call(given, self._functions))

        given: LmResponse | Unreadable
        given, self._left_out = ask_shortened(ask_with, self._left_out, len(self._turns), self._recorder.giving_way)
        return given

    def _request(self, messages: list[LmMessage], forced: Sequence[Tool]) -> LmResponse:
        """Make a request; the model has to call one of the tools that are `forced`, if there are any.

        It has to call any behind a reply that called none, and from the second such reply on, if its server takes that.
        """
        offered = tool_schemas(self._tools, self._more, self._asked)
        required = bool(self._explained) or self._without_calls >= reply_limits.WITHOUT_CALLS
        if forced or not (required and self._may_require):
            return self._converse(messages, offered, forced)
        try:
            return self._converse(messages, offered, offered)
        except LmFailed as failure:
            if failure.code != "refused":
                raise
        self._may_require = False
        return self._converse(messages, offered, ())

    def _messages(self, left_out: int, told: str) -> list[LmMessage]:
        """Return the conversation without its first turns: a call is never without its answer."""
        note = f"\n\n(Your steps 1 to {left_out} are left out: the prompt was too long with them.)" if left_out else ""
        said = [LmMessage.of("user", self._task + note), *(each for turn in self._turns[left_out:] for each in turn)]
        words = "\n\n".join(filter(None, (self._explained, told)))
        return [*said[:-1], said[-1].telling(words)] if words else said


def _unreadable(reply: str, why: str, code: Fault = "unreadable") -> Unreadable:
    return Unreadable(cut(reply, lim.REPLY_SHOWN_CHARS), f"{UNREAD}{why}. {_NEXT}", code)


_OTHER = re.compile(r"[^A-Za-z0-9_-]")
"""What the protocol takes for no letter of a name."""


def _turn(index: int, given: LmResponse, made: Sequence[tuple[Call, CallOutcome]], output_chars: int) -> Turn:
    """Return the turn of a step that called tools, as it is shown again."""
    said, told = list[dict[str, Any]](), list[dict[str, Any]]()
    # Calls that were written out as text are shown as calls.
    if given.calls_tools and given.text.strip():
        said.append({"type": "text", "text": cut_middle(given.text, output_chars)})
    for number, (call, outcome) in enumerate(made, 1):
        # Nine letters and digits: one family of models takes no other.
        name = _OTHER.sub("_", call.name)[: reply_limits.TOOL_NAME_CHARS] or "_"
        of_call = {"id": f"s{index:04d}c{number:03d}", "name": name}
        more = {"continuation": call.continuation} if call.continuation else {}
        said.append({"type": "tool_call", **of_call, "input": call.arguments, **more})
        text = {"type": "text", "text": cut_middle(outcome.output, output_chars)}
        told.append({"type": "tool_result", **of_call, "content": [text]})
    continuation = given.message.continuation
    return LmMessage(role="assistant", parts=said, continuation=continuation), LmMessage(role="tool", parts=told)
