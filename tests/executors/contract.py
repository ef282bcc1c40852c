"""What every executor promises. Each passes this one suite; those that run code pass `CodeContract` as well."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from dspy.primitives.code_interpreter import CodeInterpreterError

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import LmFailed
from rbank_es.events import LmCalled, StepTaken, ToolCalled
from rbank_es.executors.executor import Interpreters
from rbank_es.judging.run_outcome import is_agents_own
from rbank_es.models.model_call import RetryableFailure, failed
from rbank_es.models.recorded_model import RecordedModel
from rbank_es.models.scripted_model import rendered
from rbank_es.rerun.recorded_steps import recorded_keys, recorded_steps
from rbank_es.sandbox.interpreter import SandboxExhausted, SessionLost
from rbank_es.sandbox.recorded_interpreter import RecordedInterpreter
from tests.effort import one_in
from tests.executors.runs import TASK, Said, Setting, Turns, answer, code, local
from tests.faults.disk import Disk, no_space

SPARQL = "SELECT ?light WHERE { ?light ?seen ?marigold }"


TOO_LONG = LmFailed("context_too_long", "too long", "choose another model")


class Ending(NamedTuple):
    """What an agent and its provider say, and how such a run ends."""

    said: Callable[[Any], list[Said]]
    outcome: str
    error_code: str | None
    calls: int | None
    """None where parts of the prompt gave way first."""
    steps: int
    iterations: int | None = None
    """The limit, where there is one."""


ENDINGS: dict[str, Ending] = {
    "prose for the forced answer": Ending(
        lambda agent: [agent.finds(), "prose, no fields"], "forced_at_limit", "unreadable", 2, 1, 1
    ),
    "a blank forced answer": Ending(
        lambda agent: [agent.finds(), answer("  ")], "forced_at_limit", "unreadable", 2, 1, 1
    ),
    "no word for the forced answer": Ending(
        lambda agent: [agent.finds(), "", "", ""], "forced_at_limit", "bad_response", 4, 1, 1
    ),
    "a failure at the forced answer": Ending(
        lambda agent: [agent.finds(), LmFailed("refused", "no", "ask")], "forced_at_limit", "refused", 2, 1, 1
    ),
    "a forced answer that may not be asked for": Ending(
        lambda agent: [agent.finds(), LmFailed("replay_miss", "no", "ask")], "failed", "replay_miss", 2, 1, 1
    ),
    "nothing but prose": Ending(lambda agent: ["prose"] * 4, "forced_at_limit", "unreadable", 4, 3, 3),
    "never a word": Ending(lambda agent: ["", "", "", agent.submits()], "failed", "bad_response", 3, 1),
    "silence in between": Ending(lambda agent: [agent.finds(), "", "", "", agent.submits()], "submitted", None, 5, 3),
    "a failure": Ending(lambda agent: [agent.finds(), LmFailed("timeout", "slow", "wait")], "failed", "timeout", 2, 1),
    "too long at first": Ending(lambda agent: [TOO_LONG] * 9, "failed", "context_too_long", None, 0),
}
"""The agent is told apart from its provider, and each step that was made is kept."""

ERRORS: dict[str, tuple[Callable[[Any], Said], str | None, str]] = {
    "prose": (lambda agent: "I would look at the register.", "unreadable", "[Error] Your reply"),
    "half": (lambda agent: agent.half_said(), "unreadable", "[Error] Your reply"),
    "blank fields": (lambda agent: "[[ ## completed ## ]]", "unreadable", "[Error] Your reply"),
    "other fields": (lambda agent: rendered({"thought": "x", "action": "y"}), "unreadable", "[Error] Your reply"),
    "an empty answer": (lambda agent: agent.submits("  "), "refused", "the answer is empty"),
    "an unknown tool": (lambda agent: agent.calls("no_such_tool"), "", "no_such_tool"),
    "a tool that refuses": (lambda agent: agent.calls("refuse"), None, "refused_here"),
    "a broken tool": (lambda agent: agent.calls("broken_tool"), None, "tool_failed"),
    "no arguments": (lambda agent: agent.calls("find"), None, "find"),
    "a wrong name": (lambda agent: agent.calls("find", wrong=1), None, "find"),
    "a wrong value": (lambda agent: agent.calls("find", word=["x"]), None, "find"),
    "two values, one wrong": (lambda agent: agent.calls("find", word="x", k="many"), None, "find"),
}
"""A step of an agent that errs, its fault ("" for any, None for any or none), and words of what it is told."""


TOLD = [
    '{"ok": false, "error": {"code": "refused_here", "message": "a wide light can\'t be", "hint": "ask otherwise"}}',
    "{'code': 'refused_here', 'message': \"a wide light can't be\", 'hint': 'ask otherwise'}",
    "A wide light can't be.",
    "[Error] Your reply could not be read: it lacks a name.",
    "Your reply could not be read: it lacks a name.",
    "`find(word, k=6)` - Find lights by a word.",
    "(your answer, in words)",
    "This is your last step: SUBMIT what you have found.",
]
"""Words that are ours: of an error as JSON and as Python writes it, of the manual, of an example, of advice."""


class ExecutorContract:
    """Subclasses say how their agent writes things down."""

    name = ""
    interpreters: Interpreters | None = staticmethod(local)

    # ---------------------------------------------------------------- how an agent says it

    def calls(self, tool: str, **arguments: Any) -> str:
        """A step that calls one tool and looks at its answer."""
        raise NotImplementedError

    def finds(self, word: str = "rock") -> str:
        return self.calls("find", word=word)

    def submits(self, text: str = "Three.", **fields: Any) -> str:
        """A step that hands in the result."""
        raise NotImplementedError

    def answers(self, text: str, sparql: str = "", evidence: Any = None) -> str:
        """A reply to the call that forces an answer."""
        return answer(text, sparql, evidence)

    def half_said(self) -> str:
        """A reply that lacks a field."""
        raise NotImplementedError

    def setting(self, place: Path, *said: Said, **options: Any) -> Setting:
        return Setting(place / "bank", said, **options)

    # ---------------------------------------------------------------- endings

    def test_a_submission_is_typed_and_recorded(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.submits("Three.", sparql=SPARQL, evidence={"keys": ["a", 2]}))
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.answer, result.sparql) == ("submitted", "Three.", SPARQL)
        assert result.evidence == {"keys": ["a", 2]} and result.iterations == 1 and result.error_code is None
        end = made.end
        assert (end.outcome, end.answer, end.sparql, end.iterations) == ("submitted", "Three.", SPARQL, 1)
        assert json.loads(str(end.evidence)) == {"keys": ["a", 2]} and end.answer_chars == 6 and end.error_code is None

    @pytest.mark.parametrize(
        ("text", "given", "kept"),
        [
            ("Yes.", ["k1", "k2"], {"keys": ["k1", "k2"]}),
            ("Yes.", "k1", {"keys": ["k1"]}),
            ("Yes.", [], {}),
            (["a", 3], {"a": {"b": [1]}}, {"a": {"b": [1]}}),
        ],
    )
    def test_an_answer_in_any_form_becomes_a_text_and_evidence_an_object(
        self, tmp_path: Path, text: Any, given: Any, kept: Any
    ) -> None:
        result = self.setting(tmp_path, self.submits(text, evidence=given)).run(self.name, self.interpreters)
        assert (result.outcome, result.evidence) == ("submitted", kept)
        assert result.answer == (text if isinstance(text, str) else '["a", 3]')

    @pytest.mark.parametrize("name", ENDINGS)
    def test_a_run_ends_as_what_it_is_and_keeps_its_steps(self, tmp_path: Path, name: str) -> None:
        case = ENDINGS[name]
        made = self.setting(tmp_path, *case.said(self))
        result = made.run(self.name, self.interpreters, **({"iterations": case.iterations} if case.iterations else {}))
        assert (result.outcome, result.error_code) == (case.outcome, case.error_code)
        assert (made.end.outcome, made.end.error_code) == (case.outcome, case.error_code)
        assert case.calls in (None, len(lm_calls(made))) and result.iterations == len(made.steps) == case.steps
        assert result.answer == ("Three." if case.outcome == "submitted" else "") and (
            made.end.error or not case.error_code
        )
        faults = [step.fault for step in result.steps]
        assert name != "silence in between" or faults == [None, "bad_response", None]

    def test_the_limit_forces_an_answer_and_says_so(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, *[self.finds()] * 3, self.answers("Two.", SPARQL, {"keys": []}))
        result = made.run(self.name, self.interpreters, iterations=3)
        assert (result.outcome, result.answer, result.sparql) == ("forced_at_limit", "Two.", SPARQL)
        assert result.iterations == 3 == len(made.steps) and made.end.outcome == "forced_at_limit"
        assert [call.step for call in lm_calls(made)] == [1, 2, 3, None]

    def test_an_interruption_goes_up_and_keeps_the_steps(self, tmp_path: Path) -> None:
        def interrupt(_: object) -> str:
            raise KeyboardInterrupt

        made = self.setting(tmp_path, self.finds(), interrupt)
        with pytest.raises(KeyboardInterrupt):
            made.run(self.name, self.interpreters)
        assert len(made.steps) == 1 and "run_finished" not in made.types
        assert made.bank.check().events == made.bank.position

    # ---------------------------------------------------------------- a prompt that is too long for the model

    @pytest.mark.parametrize("failure", ["context_too_long", "request_too_long"])
    def test_a_history_that_is_too_long_for_the_model_is_shortened(self, tmp_path: Path, failure: str) -> None:
        words = ("oldest", "older", "newer")
        too_long = LmFailed(failure, "too long", "choose another model")
        made = self.setting(tmp_path, *[self.finds(word) for word in words], too_long, self.submits())
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.iterations) == ("submitted", 4)
        assert [call.error_code for call in lm_calls(made)] == [None, None, None, failure, None]
        assert all(word in made.turns.prompt(-2) for word in words)
        assert len(made.turns.prompt()) < len(made.turns.prompt(-2)) and "newer" in made.turns.prompt()

    def test_a_history_stays_shortened(self, tmp_path: Path) -> None:
        finds = [self.finds(f"w{number}") for number in range(4)]
        made = self.setting(tmp_path, *finds[:3], TOO_LONG, finds[3], self.submits())
        result = made.run(self.name, self.interpreters)
        assert result.outcome == "submitted" and len(made.turns.prompt()) < 2 * len(made.turns.prompt(3))
        assert "w3 light" in made.turns.prompt() and len(made.turns.prompt(-2)) < len(made.turns.prompt(3))

    def test_a_forced_answer_is_asked_for_with_a_shorter_history_too(self, tmp_path: Path) -> None:
        finds = [self.finds(word) for word in ("oldest", "newer")]
        made = self.setting(tmp_path, *finds, TOO_LONG, self.answers("Two."))
        result = made.run(self.name, self.interpreters, iterations=2)
        assert (result.outcome, result.answer) == ("forced_at_limit", "Two.")
        assert len(made.turns.prompt()) < len(made.turns.prompt(-2))

    # ---------------------------------------------------------------- order and content of the record

    def test_events_stand_in_the_order_in_which_things_happen(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.finds(), self.calls("llm_query", prompt="p"), self.submits())
        made.run(self.name, self.interpreters)
        assert made.types == [
            "run_started",
            "context_built",
            *("lm_called", "tool_called", "step_taken"),
            *("lm_called", "lm_called", "step_taken"),
            *("lm_called", "step_taken"),
            "run_finished",
        ]
        assert [call.step for call in lm_calls(made)] == [1, 2, 2, 3]
        assert [call.step for call in tool_calls(made)] == [1]

    def test_a_step_holds_what_was_said_done_and_shown(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.finds(), self.submits())
        result = made.run(self.name, self.interpreters)
        first, last = made.steps
        assert (first.index, first.reasoning) == (1, "I think.") and "rock" in str(first.code)
        assert "rock light" in str(first.output) and first.prompt_chars == len(made.turns.prompt(0))
        assert "FINAL: " in str(last.output)
        assert [(step.index, step.code, step.output) for step in result.steps] == [
            (step.index, step.code, step.output) for step in made.steps
        ]

    def test_a_step_is_on_disk_before_the_next_call_of_the_model(self, tmp_path: Path) -> None:
        seen: list[int] = []

        def look(_: object) -> str:
            seen.append(len(made.steps))
            return self.submits()

        made = self.setting(tmp_path, self.finds(), look)
        made.run(self.name, self.interpreters)
        assert seen == [1]

    def test_the_context_stands_in_each_prompt_once_and_whole(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.finds(), self.submits())
        made.run(self.name, self.interpreters)
        for number in (0, 1):
            lines = [line.strip() for line in made.turns.prompt(number).splitlines()]
            for line in made.context.text.splitlines():
                assert lines.count(line.strip()) == 1, line
            assert lines.count(TASK) == 1

    def test_common_tools_have_a_line_in_their_order_and_rare_ones_are_named(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.submits())
        made.run(self.name, self.interpreters)
        shown = re.findall(r"- `(\w+)\(.*?\)` - ", made.turns.prompt())
        common = [tool.name for tool in made.tools.manual() if not tool.rare]
        assert [name for name in shown if name in made.tools.functions] == common
        assert {"llm_query", "SUBMIT"} <= set(shown)
        assert "Also there: ctx_stats.\n" in made.turns.prompt()

    def test_no_prompt_holds_anything_of_this_machine(self, tmp_path: Path) -> None:
        tools = ("find", "refuse", "broken_tool", "no_such_tool")
        made = self.setting(tmp_path, *[self.calls(tool) for tool in tools], "prose", self.submits())
        made.run(self.name, self.interpreters)
        for number in range(len(made.turns.requests)):
            prompt = made.turns.prompt(number)
            assert str(Path.cwd()) not in prompt and str(tmp_path) not in prompt and "/srv/" not in prompt
            assert "Traceback" not in prompt and str(os.getpid()) not in prompt

    # ---------------------------------------------------------------- an agent that errs

    @pytest.mark.parametrize("name", ERRORS)
    def test_an_error_of_the_agent_costs_a_step_and_is_explained(self, tmp_path: Path, name: str) -> None:
        said, fault, words = ERRORS[name]
        made = self.setting(tmp_path, said(self), self.submits())
        result = made.run(self.name, self.interpreters)
        first = result.steps[0]
        assert (result.outcome, result.answer, result.iterations) == ("submitted", "Three.", 2)
        assert words in first.output and first.output in made.turns.prompt() and made.steps[0].output == first.output
        assert fault is None or (first.fault == fault if fault else first.fault is not None)
        if fault == "unreadable":
            assert not first.code and first.output.startswith(words)
        if name in ("a tool that refuses", "a broken tool"):
            assert [call.error_code for call in tool_calls(made)] == [words]

    @pytest.mark.parametrize("words", TOLD)
    def test_words_that_the_agent_was_told_are_no_answer(self, tmp_path: Path, words: str) -> None:
        """Small models handed in our errors and examples as they stood, and they were accepted."""
        refused = self.calls("refuse", word="a wide light")
        made = self.setting(tmp_path, refused, self.submits(words), self.submits("A wide light."))
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.answer) == ("submitted", "A wide light.")
        assert made.steps[1].error_code == "refused" and "the answer is what you were told" in str(made.steps[1].output)

    def test_an_unreadable_reply_is_shown_again_but_not_without_end(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, "long " * 20_000, self.submits())
        result = made.run(self.name, self.interpreters)
        assert len(result.steps[0].reasoning) <= limits.REPLY_SHOWN_CHARS + 1
        assert len(made.turns.prompt(1)) < len(made.turns.prompt(0)) + 2 * limits.REPLY_SHOWN_CHARS

    @pytest.mark.parametrize("how", ["unreadable", "same call", "same failure", "no answer"])
    def test_a_run_that_stands_still_is_told_and_then_ended_without_an_answer(self, tmp_path: Path, how: str) -> None:
        """Its failure is the agent's own, and its other steps are not asked for."""
        said = {
            "unreadable": ["prose", "more prose", "prose", "prose again"],
            "same call": [self.finds()] * 4,
            "same failure": [self.calls("refuse", word="x")] * 4,
            "no answer": [self.calls("refuse", word=word) for word in "abcdefg"],
        }[how]
        made = self.setting(tmp_path, *said, self.submits())
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.error_code, result.iterations) == ("failed", "stalled", len(said))
        assert f"the last {len(said)} steps" in str(result.error) and made.end.answer is None
        assert is_agents_own(result.outcome, result.error_code)
        last = self.setting(tmp_path / "last", *said, self.submits())
        assert last.run(self.name, self.interpreters, iterations=len(said)).error_code == "stalled"
        saved = self.setting(tmp_path / "saved", *said[:-1], self.submits())
        assert saved.run(self.name, self.interpreters).outcome == "submitted"

    # ---------------------------------------------------------------- sub-calls

    def test_sub_calls_answer_and_are_recorded(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, self.calls("llm_query_batched", prompts=["one", "two"]), self.submits())
        result = made.run(self.name, self.interpreters)
        assert "ONE" in result.steps[0].output and "TWO" in result.steps[0].output
        assert Counter(call.role for call in lm_calls(made)) == {"agent": 2, "sub": 2}

    def test_sub_calls_are_counted_and_the_agent_is_told(self, tmp_path: Path) -> None:
        batch = self.calls("llm_query_batched", prompts=["p"] * 3)
        made = self.setting(tmp_path, batch, batch, self.calls("llm_query", prompt="q"), batch, self.submits())
        result = made.run(self.name, self.interpreters, subcalls=4)
        assert result.outcome == "submitted" and sum(call.role == "sub" for call in lm_calls(made)) == 4
        assert "over the limit of 4; 1 are left" in result.steps[1].output
        assert "Q" in result.steps[2].output and "0 are left" in result.steps[3].output

    @pytest.mark.parametrize("prompts", ["a text", ["p", 3], [""], {"a": 1}])
    def test_wrong_prompts_are_refused_and_not_counted(self, tmp_path: Path, prompts: Any) -> None:
        good = self.calls("llm_query_batched", prompts=["p"])
        made = self.setting(tmp_path, self.calls("llm_query_batched", prompts=prompts), good, self.submits())
        result = made.run(self.name, self.interpreters, subcalls=1)
        assert result.outcome == "submitted" and "P" in result.steps[1].output
        assert sum(call.role == "sub" for call in lm_calls(made)) == 1

    def test_one_sub_call_that_fails_leaves_the_others(self, tmp_path: Path) -> None:
        def sub(prompt: str) -> str:
            if prompt == "bad":
                raise LmFailed("refused", "no such thing", "ask otherwise")
            return prompt.upper()

        said = [self.calls("llm_query_batched", prompts=["one", "bad", "two"]), self.submits()]
        made = Setting(tmp_path / "bank", Turns(said, sub))
        result = made.run(self.name, self.interpreters)
        assert result.outcome == "submitted"
        assert all(words in result.steps[0].output for words in ("ONE", "TWO", "[ERROR] no such thing"))

    def test_a_sub_call_after_which_nothing_may_be_asked_ends_the_run(self, tmp_path: Path) -> None:
        def sub(prompt: str) -> str:
            raise LmFailed("script_mismatch", "the script has no such prompt", "mend it")

        said = [self.calls("llm_query", prompt="p"), self.submits()]
        made = Setting(tmp_path / "bank", Turns(said, sub))
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.error_code, len(made.steps)) == ("failed", "script_mismatch", 1)

    # ---------------------------------------------------------------- a bank that can't be written

    @pytest.mark.parametrize("kind", ["lm_called", "tool_called", "step_taken"])
    def test_what_can_not_be_recorded_ends_the_run(self, tmp_path: Path, kind: str) -> None:
        disk = Disk()
        made = self.setting(
            tmp_path,
            self.finds(),
            self.finds("sand"),
            self.submits(),
            bank=Bank.create(tmp_path / "bank", calls=disk),
        )
        fail_from(made, disk, kind, 2)
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.error_code, result.answer) == ("failed", "not_recorded", "")
        disk.fail = lambda name, number: None
        again = Bank.open(tmp_path / "bank")
        assert again.check().events == again.position
        kept = [event for event in again.events(run=made.run_id, resolve=True) if isinstance(event, StepTaken)]
        assert [step.index for step in kept] == [1] and "rock light" in str(kept[0].output)

    def test_a_run_that_is_killed_keeps_every_step(self, tmp_path: Path) -> None:
        def be_killed(_: object) -> str:
            # What a killed process leaves is what its files hold at that moment.
            shutil.copytree(tmp_path / "bank", tmp_path / "left")
            raise KeyboardInterrupt

        said = [self.finds(), self.finds("sand"), be_killed]
        with pytest.raises(KeyboardInterrupt):
            self.setting(tmp_path, *said).run(self.name, self.interpreters)
        bank = Bank.open(tmp_path / "left")
        assert bank.check().events == bank.position
        steps = [event for event in bank.events(resolve=True) if isinstance(event, StepTaken)]
        assert [step.index for step in steps] == [1, 2]
        assert "rock light" in str(steps[0].output) and "sand light" in str(steps[1].output)

    # ---------------------------------------------------------------- the same again

    def test_equal_runs_make_equal_requests(self, tmp_path: Path) -> None:
        said = [self.calls("refuse", word="x"), "prose", self.calls("llm_query", prompt="p"), self.submits()]
        keys = []
        for place in ("one", "two"):
            made = self.setting(tmp_path / place, *said)
            made.run(self.name, self.interpreters)
            keys.append([call.request_key for call in lm_calls(made)])
        assert keys[0] == keys[1] and len(set(keys[0])) == 5

    def test_a_run_is_told_again_from_its_events(self, tmp_path: Path) -> None:
        said: list[Said] = [
            self.finds(),
            "prose",
            self.calls("ctx_peek", ref="text_0", n=9),
            self.calls("no_such_tool"),
            self.calls("refuse", word="x"),
            self.submits(" "),
            self.calls("llm_query_batched", prompts=["one", "two", "one"]),
            self.submits("Three.", sparql=SPARQL, evidence=["text_0"]),
        ]
        failing = iter([True])

        def sub(prompt: str) -> str:
            if prompt == "two" and next(failing, False):
                raise RetryableFailure(failed("rate_limited", "later"))
            return prompt.upper()

        first = Setting(tmp_path / "first", Turns(said, sub))
        result = first.run(self.name, self.interpreters)
        assert result.outcome == "submitted" and [call.attempt for call in lm_calls(first)].count(2) == 1
        self._told_again(first, tmp_path)

    def test_a_forced_run_is_told_again_from_its_events(self, tmp_path: Path) -> None:
        first = self.setting(tmp_path / "first", self.finds(), "prose", self.answers("Two."))
        assert first.run(self.name, self.interpreters, iterations=2).outcome == "forced_at_limit"
        self._told_again(first, tmp_path, iterations=2)

    def test_a_run_with_a_shortened_history_is_told_again_from_its_events(self, tmp_path: Path) -> None:
        said = [self.finds(), self.finds("sand"), TOO_LONG, self.submits()]
        first = self.setting(tmp_path / "first", *said)
        assert first.run(self.name, self.interpreters).outcome == "submitted"
        self._told_again(first, tmp_path)

    def _told_again(self, first: Setting, place: Path, **run_limits: Any) -> None:
        keys = iter(recorded_keys(first.events))
        played = RecordedInterpreter(recorded_steps(first.events)) if self.interpreters else None
        replay = RecordedModel(first.events)
        again = Setting(place / "again", [], model_for=lambda role, choice: replay, new_id=lambda: next(keys))
        again.run(self.name, (lambda: played) if played else None, **run_limits)
        assert comparable(again) == comparable(first)
        assert replay.unused == () and next(keys, None) is None
        assert played is None or played.remaining == 0

    def test_runs_side_by_side_keep_apart(self, tmp_path: Path) -> None:
        bank = Bank.create(tmp_path / "bank", unsafe_no_sync=True)
        made = []
        for number in range(3):
            said = [self.finds(f"w{number}"), self.finds("x"), self.submits(f"A{number}")]
            made.append(Setting(tmp_path, said, bank=bank, run=f"run-{number}"))
        threads = [threading.Thread(target=each.run, args=(self.name, self.interpreters)) for each in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, each in enumerate(made):
            assert each.end.answer == f"A{number}" and [step.index for step in each.steps] == [1, 2, 3]
            assert f"w{number} light" in str(each.steps[0].output)
            assert [call.step for call in tool_calls(each)] == [1, 2]


class Dying:
    """An interpreter whose steps come out as the test says: an exception is raised, all else is returned."""

    def __init__(self, outcomes: list[Any]) -> None:
        self.tools: dict[str, Any] = {}
        self.outcomes = iter(outcomes)
        self.variables: list[list[str]] = []
        self.is_shut_down = False

    def start(self) -> None:
        """Nothing needs to."""

    def shutdown(self) -> None:
        self.is_shut_down = True

    def execute(self, text: str, variables: dict[str, Any] | None = None) -> Any:
        self.variables.append(sorted(variables or {}))
        outcome = next(self.outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class AdvisedContract(ExecutorContract):
    """An executor whose prompts tell the agent when its steps end, as those of this project do."""

    def test_the_last_two_steps_are_told_apart_with_a_whole_reply_that_submits(self, tmp_path: Path) -> None:
        finds = [self.finds(word) for word in ("rock", "sand", "sea")]
        made = self.setting(tmp_path, *finds, self.submits("Two."))
        assert made.run(self.name, self.interpreters, iterations=4).outcome == "submitted"
        # What was told is kept where the history is a conversation, so the latest counts.
        told = [re.findall("This is your last step|Two steps are left", made.turns.prompt(n))[-1:] for n in range(4)]
        assert told == [[], [], ["Two steps are left"], ["This is your last step"]]
        assert "(your answer, in words)" in made.turns.prompt(3).split("This is your last step")[1]

    @pytest.mark.parametrize("iterations", [1, 2])
    def test_a_run_of_few_steps_is_told_at_its_first(self, tmp_path: Path, iterations: int) -> None:
        made = self.setting(tmp_path, self.submits("Two."))
        made.run(self.name, self.interpreters, iterations=iterations)
        assert ("This is your last step" in made.turns.prompt(0)) == (iterations == 1)
        assert ("Two steps are left" in made.turns.prompt(0)) == (iterations == 2)


class CodeContract(AdvisedContract):
    """What those promise beside that run code."""

    def calls(self, tool: str, **arguments: Any) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return code(f"print({tool}({given}))")

    def submits(self, text: Any = "Three.", **fields: Any) -> str:
        given = {"answer": text, "sparql": "", "evidence": {}, **fields}
        return code(f"SUBMIT({', '.join(f'{name}={value!r}' for name, value in given.items())})")

    def half_said(self) -> str:
        return rendered({"reasoning": "I have a plan, and no code."})

    def test_the_inputs_are_variables(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("print(len(context), question)"), self.submits())
        result = made.run(self.name, self.interpreters)
        assert result.steps[0].output.strip() == f"{len(made.context.text)} {TASK}"
        step = made.steps[0]
        assert step.stdout_chars == len(str(step.output)) and step.error_code is None

    def test_variables_last_from_step_to_step(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("found = find('rock')"), code("SUBMIT(found['found'], '', found['key'])"))
        result = made.run(self.name, self.interpreters)
        assert result.answer == "rock light" and result.evidence == {"keys": [tool_calls(made)[0].id]}
        assert result.steps[0].measures.stdout_chars == 0 and "no output" in result.steps[0].output

    @pytest.mark.parametrize(
        ("reply", "fault"),
        one_in(
            4,
            [
                ("", "no_code"),
                ("```python\n```", "no_code"),
                ("```json\n{}\n```", "no_code"),
                ("I would write code here, but rather don't.", "syntax"),
                ("```python\nprint(1\n```", "syntax"),
                ("```python\nraise ValueError('bad luck')\n```", "raised"),
                ("```python\nraise ValueError(object())\n```", "raised"),
                ("```python\n{'a': 1}[:3]\n```", "raised"),
            ],
        ),
    )
    def test_bad_code_costs_a_step(self, tmp_path: Path, reply: str, fault: str) -> None:
        made = self.setting(tmp_path, rendered({"reasoning": "r", "code": reply}), self.submits())
        result = made.run(self.name, self.interpreters)
        assert result.outcome == "submitted" and result.steps[0].fault == fault
        assert result.steps[0].output.startswith("[Error]") and result.steps[0].output in made.turns.prompt()

    def test_of_two_blocks_the_first_runs_and_is_recorded(self, tmp_path: Path) -> None:
        reply = "```python\nprint('first')\n```\nand then\n```python\nprint('second')\n```"
        made = self.setting(tmp_path, rendered({"reasoning": "r", "code": reply}), self.submits())
        made.run(self.name, self.interpreters)
        assert (made.steps[0].code, str(made.steps[0].output).strip()) == ("print('first')", "first")

    def test_later_prompts_show_a_long_output_shortened_and_the_record_whole(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("print('x' * 5_000)"), self.submits())
        made.run(self.name, self.interpreters, output_chars=100)
        assert made.turns.prompt().count("x" * 25) == 2 and "x" * 26 not in made.turns.prompt()
        assert str(made.steps[0].output).strip() == "x" * 5_000

    def test_a_lost_session_costs_a_step(self, tmp_path: Path) -> None:
        lost = SessionLost("the step took too long. All variables are gone", "timeout")
        interpreter = Dying(["seen", lost, "seen again", CodeInterpreterError("gone for good")])
        made = self.setting(tmp_path, *[code("pass")] * 5)
        result = made.run(self.name, lambda: interpreter)
        assert [step.fault for step in result.steps] == [None, "timeout", None, "no_sandbox"]
        assert "All variables are gone" in made.turns.prompt(2) and interpreter.is_shut_down
        assert interpreter.variables[2] == ["context", "question"]

    @pytest.mark.parametrize(
        ("death", "error_code"),
        [
            (CodeInterpreterError("died"), "sandbox_failed"),
            (SandboxExhausted("lost too often", "memory"), "sandbox_exhausted"),
        ],
    )
    def test_a_sandbox_that_is_no_more_fails_the_run_with_its_steps(
        self, tmp_path: Path, death: Exception, error_code: str
    ) -> None:
        interpreter = Dying(["seen", death])
        made = self.setting(tmp_path, *[code("pass")] * 2)
        result = made.run(self.name, lambda: interpreter)
        assert (result.outcome, result.error_code, result.error) == ("failed", error_code, str(death))
        assert [step.output for step in result.steps] == ["seen", f"[Error] {death}"] and interpreter.is_shut_down
        assert made.end.error_code == error_code and len(made.steps) == 2

    def test_a_sandbox_that_is_exhausted_is_told_again(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path / "first", *[code("pass")] * 2)
        made.run(self.name, lambda: Dying(["seen", SandboxExhausted("lost too often", "memory")]))
        self._told_again(made, tmp_path)

    def test_an_interpreter_that_can_not_be_made_fails_the_run(self, tmp_path: Path) -> None:
        def none() -> Any:
            raise CodeInterpreterError("there is none")

        made = self.setting(tmp_path)
        result = made.run(self.name, none)
        assert (result.outcome, result.error_code, made.steps) == ("failed", "sandbox_failed", [])

    def test_a_worker_that_is_killed_fails_the_run_with_its_steps(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("print(1)"), code("import os; os.kill(os.getpid(), 9)"))
        result = made.run(self.name, local)
        assert (result.outcome, result.error_code) == ("failed", "sandbox_failed") and len(made.steps) == 2

    def test_code_that_hides_why_nothing_may_be_asked_can_not_submit(self, tmp_path: Path) -> None:
        def sub(prompt: str) -> str:
            raise LmFailed("script_mismatch", "the script has no such prompt", "mend it")

        hides = "try:\n    llm_query('p')\nexcept Exception:\n    pass\nSUBMIT(answer='x', sparql='', evidence={})"
        made = Setting(tmp_path / "bank", Turns([code(hides)], sub))
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.error_code, result.answer) == ("failed", "script_mismatch", "")
        assert len(made.steps) == 1

    def test_code_that_hides_that_a_call_was_not_recorded_can_not_submit(self, tmp_path: Path) -> None:
        disk = Disk()
        hides = code("find('rock')\nSUBMIT(answer='x', sparql='', evidence={})")
        made = self.setting(tmp_path, hides, bank=Bank.create(tmp_path / "bank", calls=disk))
        fail_from(made, disk, "tool_called", 1, once=True)
        result = made.run(self.name, self.interpreters)
        assert (result.outcome, result.error_code) == ("failed", "not_recorded")
        assert made.end.error_code == "not_recorded" and [step.index for step in made.steps] == [1]

    def test_sub_agents_are_not_there(self, tmp_path: Path) -> None:
        made = self.setting(tmp_path, code("print(__dspy_construct__)"), self.submits())
        result = made.run(self.name, self.interpreters)
        assert result.steps[0].fault == "raised" and "NameError" in result.steps[0].output
        assert "import dspy" not in made.turns.prompt() and "Sub-agents" not in made.turns.prompt()


def lm_calls(made: Setting) -> list[LmCalled]:
    return [event for event in made.events if isinstance(event, LmCalled)]


def tool_calls(made: Setting) -> list[ToolCalled]:
    return [event for event in made.events if isinstance(event, ToolCalled)]


def fail_from(made: Setting, disk: Disk, kind: str, number: int, *, once: bool = False) -> None:
    """The disk is full from the `number`-th event of a kind on, or only for that one."""
    append, seen = made.bank.append, 0

    def full(events: Any, **options: Any) -> Any:
        nonlocal seen
        listed = events if isinstance(events, list | tuple) else [events]
        found = sum(event.__struct_config__.tag == kind for event in listed)
        seen += found
        is_full = seen >= number and (found or not once)
        disk.fail = lambda name, _: no_space() if is_full and name == "write" else None
        return append(events, **options)

    made.bank.append = full  # type: ignore[method-assign]


def comparable(made: Setting) -> list[dict[str, Any]]:
    """The events of a run without what may differ when it is told again: sub-calls side by side have no order."""
    kept: list[dict[str, Any]] = []
    for _, group in groupby(made.events, _is_sub_call):
        kept += [dict(_kept(event)) for event in sorted(group, key=_of_sub_call)]
    return kept


def _is_sub_call(event: Any) -> bool:
    return isinstance(event, LmCalled) and event.role == "sub"


def _of_sub_call(event: Any) -> tuple[str, int]:
    return (str(event.request_key), event.attempt or 1) if _is_sub_call(event) else ("", 0)


def _kept(event: Any) -> Iterator[tuple[str, Any]]:
    left_out = {"seq", "at", "more", "dur", "crc", "salt", "duration_s"}
    if not isinstance(event, ToolCalled) or event.result is None:
        left_out.add("id")
    for name in event.__struct_fields__:
        if name not in left_out:
            yield name, getattr(event, name)
