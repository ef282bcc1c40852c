"""An agent gone mad costs its step, at most its run: calls, payloads, bytes of the log and time end at their bounds.

Past a bound of a step, tools answer with an error that names it, and the next step goes on; past one of the run, the
agent is asked for its answer, and the end of the run names the bound.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import LmCalled, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.events.run_events import RunBounds
from rbank_es.limits import sandbox_limits, tool_limits
from rbank_es.sandbox.session import SandboxSettings
from rbank_es.tools.shared.call_budget import RunMeter
from rbank_es.tools.shared.toolbox import Toolbox, build_tools
from tests.cli_runner import fails
from tests.cli_runner import run as cli
from tests.loop.loops import TASKS, looped, quick, source
from tests.sandbox import sandboxes
from tests.sandbox.scripted_guest import ScriptedProcess, final, stand_in, take_session

sandboxes.require_dspy()
from rbank_es.judging.judges import NOBODY  # noqa: E402
from rbank_es.loop.settings import LoopSettings  # noqa: E402
from rbank_es.models.model_choice import LmChoice  # noqa: E402
from rbank_es.rerun.execution import rerun  # noqa: E402
from rbank_es.rerun.recorded_run import runs_of  # noqa: E402
from rbank_es.sandbox.interpreter import Sandbox  # noqa: E402
from tests.executors.plain_executor import Plain  # noqa: E402
from tests.executors.runs import Calls, Setting, Turns, answer, call, code  # noqa: E402
from tests.rerun.banks import quick_code, shipped  # noqa: E402

SUBMITS = code("SUBMIT('Three.', '', {})")
FLOOD = code("for n in range(300): last = find('rock')\nprint(last)")
CALLING_ON = code("import time\nwhile True:\n    call('find', {'word': 'rock'})\n    time.sleep(0.01)")
"""It calls for as long as it may, yet a quick machine doesn't reach the number of calls that makes a flood."""
WITH_CODE = (pytest.param("rlm", marks=pytest.mark.slow), "scratchpad")


def setting(place: Path, said: list[Any], **bounds: float) -> Setting:
    """A run with these bounds that is about to be made."""
    return Setting(place / "bank", said, meter=RunMeter(RunBounds(**bounds)))  # type: ignore[arg-type]


def calls(made: Setting, step: int | None = None) -> list[str | None]:
    """The error codes of the calls that were recorded, None for one that was answered."""
    found = [event for event in made.events if isinstance(event, ToolCalled)]
    return [event.error_code for event in found if step in (None, event.step)]


# -------------------------------------------------------------------- calls


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_loop_over_calls_ends_with_its_step_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    made = setting(tmp_path, [FLOOD, code("print(find('rock')['ok'])"), SUBMITS], step_calls=7)
    result = made.run(name)
    assert (result.outcome, result.bound, len(result.steps)) == ("submitted", None, 3)
    # One refusal is recorded, and not the 292 others.
    assert calls(made, 1) == [None] * 7 + ["step_calls"] and calls(made, 2) == [None]
    seen = result.steps[0].output
    assert "'step_calls'" in seen and "this step may have: 7 calls of tools" in seen and "next step" in seen
    assert result.steps[1].output.strip() == "True"


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_run_that_has_made_its_calls_is_asked_for_its_answer(name: str, tmp_path: Path) -> None:
    made = setting(tmp_path, [code("find('a')"), FLOOD, answer("Two.")], run_calls=4)
    result = made.run(name)
    assert (result.outcome, result.answer, result.bound) == ("forced_at_limit", "Two.", "run_calls")
    assert (made.end.outcome, made.end.bound, made.end.error_code) == ("forced_at_limit", "run_calls", None)
    assert calls(made) == [None] * 4 + ["run_calls"] and len(made.steps) == 2


def test_an_agent_without_code_is_bounded_alike(tmp_path: Path) -> None:
    made = setting(tmp_path, [call("find", {"word": "rock"})] * 3 + [answer("Two.")], run_calls=2)
    result = made.run("react")
    assert (result.outcome, result.bound, len(result.steps)) == ("forced_at_limit", "run_calls", 3)
    assert result.steps[2].fault == "tool_failed" and '"run_calls"' in result.steps[2].output


def test_an_executor_that_looks_at_no_bound_is_stopped_by_the_recorder(tmp_path: Path) -> None:
    said = ['{"thought": "t", "tool": "find", "args": {"word": "rock"}}'] * 5
    made = setting(tmp_path, said, run_calls=1)
    result = made.run(Plain())
    assert (result.outcome, result.error_code, result.bound) == ("failed", "bound_spent", "run_calls")
    assert len(made.steps) == 2 and "1 calls of tools" in str(result.error)


def test_calls_that_fail_count_as_well(tmp_path: Path) -> None:
    mad = code("for n in range(99):\n  find(), broken_tool(), refuse('x')")
    made = setting(tmp_path, [mad, SUBMITS], step_calls=9)
    assert made.run("rlm").outcome == "submitted"
    assert calls(made) == ["bad_arguments", "tool_failed", "refused_here"] * 3 + ["step_calls"]


def test_a_program_that_calls_tools_outside_of_steps_has_the_bounds_of_a_run(tmp_path: Path) -> None:
    made = setting(tmp_path, [], step_calls=2, run_calls=5)
    replies = [made.tools.call("find", {"word": "rock"}) for _ in range(9)]
    assert [reply["ok"] for reply in replies] == [True] * 5 + [False] * 4
    assert calls(made) == [None] * 5 + ["run_calls"]


def test_a_run_that_goes_on_in_another_process_has_no_more_calls_than_one(tmp_path: Path) -> None:
    bounds = RunBounds(run_calls=3)
    with quick(tmp_path / "bank") as bank:
        bank.append(RunStarted(run="r", task="?"))
        first, later = (build_tools(bank, run="r", meter=RunMeter(bounds)) for _ in range(2))
        assert [first.call("event_log", {"obj": {}})["ok"] for _ in range(2)] == [True, True]
        later = build_tools(bank, run="r", meter=RunMeter(bounds))
        assert [later.call("event_log", {"obj": {}})["ok"] for _ in range(2)] == [True, False]


# -------------------------------------------------------------------- bytes


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Callable[..., Toolbox]]:
    """The real tools over the shipped ontology, with these bounds, in their first step."""
    with quick(tmp_path / "bank") as bank:

        def build(**bounds: int) -> Toolbox:
            box = build_tools(bank, run="r", source=source(), meter=RunMeter(RunBounds(**bounds)))
            box.session.step = 1
            box.session.meter.begin_step(1)
            return box

        yield build


def written(box: Toolbox) -> int:
    """The bytes of the log."""
    return sum(len(msgspec.json.encode(event)) for event in box.session.bank.events(resolve=True))


def kept(box: Toolbox) -> int:
    """The bytes of the payloads that the log keeps."""
    events = box.session.bank.events(resolve=True)
    return sum(len(str(event.result or "").encode()) for event in events if isinstance(event, ToolCalled))


RANDOM = "SELECT (RAND() AS ?a) (RAND() AS ?b) (RAND() AS ?c) WHERE { ?s ?p ?o }"


@pytest.mark.parametrize("scope", ["step", "run"])
def test_random_results_are_kept_up_to_a_bound(tools: Callable[..., Toolbox], scope: str) -> None:
    """No two are alike, so that nothing but a bound ends them."""
    box = tools(**{f"{scope}_payload_bytes": 100_000})
    replies = [box.call("sparql_query", {"query": RANDOM, "limit": 100}) for _ in range(20)]
    assert {reply["error"]["code"] for reply in replies if not reply["ok"]} == {f"{scope}_payload_bytes"}
    assert 0 < kept(box) <= 100_000
    assert (box.session.meter.spent is not None) == (scope == "run")


def test_a_result_that_still_fits_is_kept_after_one_that_did_not(tools: Callable[..., Toolbox]) -> None:
    box = tools(step_payload_bytes=20_000)
    large, small = ({"query": RANDOM, "limit": number} for number in (500, 2))
    assert not box.call("sparql_query", large)["ok"]
    reply = box.call("sparql_query", small)
    assert reply["ok"] and box.call("ctx_stats", {"ref": reply["alias"]})["ok"]


FLOODS: dict[str, tuple[str, dict[str, Any]]] = {
    "notes": ("event_log", {"obj": {"n": "x" * 15_000}}),
    "proposed items": ("mem_add", {"title": "Always answer 42", "content": "y" * 10_000}),
    "arguments that are refused": ("sparql_query", {"query": "z" * 19_000}),
    "arguments that no tool takes": ("g_search", {"nothing": "n" * 19_000}),
    "searches": ("g_search", {"text": "light" * 2_000}),
}


@pytest.mark.parametrize("what", FLOODS)
@pytest.mark.parametrize("scope", ["step", pytest.param("run", marks=pytest.mark.slow)])
def test_a_flood_of_words_ends_at_the_bytes_that_may_be_recorded(
    tools: Callable[..., Toolbox], scope: str, what: str
) -> None:
    box = tools(**{f"{scope}_log_bytes": 50_000})
    tool, arguments = FLOODS[what]
    codes = [box.call(tool, arguments).get("error", {}).get("code") for _ in range(60)]
    assert codes[-1] == f"{scope}_log_bytes" and codes.count(codes[-1]) > 20
    # The refusal that is recorded has its arguments too.
    assert written(box) < 50_000 + 2 * tool_limits.TOOL_ARGUMENT_CHARS


def test_ctx_stats_two_thousand_times_is_two_hundred_events(tools: Callable[..., Toolbox]) -> None:
    box = tools()
    made = box.call("sparql_query", {"query": "SELECT ?s { ?s a lt:Lighthouse }"})
    began = box.session.bank.position
    assert [box.call("ctx_stats", {"ref": made["alias"]})["ok"] for _ in range(2_265)].count(True) == 199
    assert box.session.bank.position - began == limits.STEP_CALLS


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_run_that_has_recorded_too_much_is_asked_for_its_answer(name: str, tmp_path: Path) -> None:
    made = setting(tmp_path, [code("x = 'a' * 60_000\nprint(x)"), answer("Two.")], run_log_bytes=50_000)
    assert (made.run(name).bound, len(made.steps)) == ("run_log_bytes", 1)


def test_prompts_of_sub_calls_count_before_they_are_sent(tmp_path: Path) -> None:
    sends = "try: llm_query_batched(['x' * 40_000] * 3)\nexcept RuntimeError as e: print(e)"
    made = setting(tmp_path, [code(sends), code("print(llm_query('y'))"), SUBMITS], step_log_bytes=100_000)
    result = made.run("rlm")
    assert "this step may have: 100,000 bytes recorded" in result.steps[0].output
    assert result.steps[1].output.strip() == "Y"
    assert sum(isinstance(event, LmCalled) and event.role == "sub" for event in made.events) == 1


# -------------------------------------------------------------------- time


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("name", [*WITH_CODE, "react", "tools"])
def test_a_run_whose_time_is_over_is_asked_for_its_answer(name: str, tmp_path: Path) -> None:
    clock = Clock()
    steps = {"react": call("find", {"word": "x"}), "tools": Calls(("find", {"word": "x"}))}
    step, final = (
        steps.get(name, code("1")),
        Calls(("SUBMIT", {"answer": "Two."})) if name == "tools" else answer("Two."),
    )

    def late(_: object) -> str:
        clock.now = 100
        return step

    made = Setting(tmp_path / "bank", [step, late, final], meter=RunMeter(RunBounds(run_wall_s=99), clock))
    result = made.run(name)
    assert (result.outcome, result.bound, result.answer, len(result.steps)) == (
        *("forced_at_limit", "run_wall_s", "Two."),
        2,
    )


def test_prompts_of_a_batch_are_not_sent_when_the_steps_time_is_over(tmp_path: Path) -> None:
    clock = Clock()

    def slow(prompt: str) -> str:
        clock.now += 60
        return prompt.upper()

    meter = RunMeter(RunBounds(step_wall_s=100), clock)
    said = [code(f"print(llm_query_batched(['a'] * {limits.RUN_SUBCALLS}))"), SUBMITS]
    result = Setting(tmp_path / "bank", said, sub=slow, meter=meter).run("rlm")
    assert "[ERROR] the time of this step is over" in result.steps[0].output
    assert result.steps[0].output.count("'A'") <= 2 * limits.SUB_CALLS_AT_ONCE


@pytest.mark.parametrize("name", WITH_CODE)
def test_a_step_that_never_ends_for_its_tools_is_stopped_and_the_run_goes_on(name: str, tmp_path: Path) -> None:
    """A loop over calls ran 85 s with a limit of 2 s, until it was ended by hand."""
    box = sandboxes.standing_in(tmp_path / "place", settings=SandboxSettings(step_wall_s=0.5))
    box.start()

    def goes_on(_: object) -> str:
        # With all its time, because a busy machine may need half a second for the next step.
        box.settings = SandboxSettings()
        return code("outcome['value'] = 'on'")

    made = Setting(tmp_path / "bank", [CALLING_ON, goes_on, answer("Two.")])
    began = time.monotonic()
    result = made.run(name, lambda: box, iterations=2)
    assert time.monotonic() - began < 60
    assert [step.error_code for step in made.steps] == ["wall_timeout", None]
    assert "with the tools that it called, and was stopped (the limit is 0.5 s)" in result.steps[0].output
    assert (result.outcome, result.bound) == ("forced_at_limit", "iterations")


@pytest.mark.slow
def test_the_last_step_gets_no_more_time_than_the_run_has(tmp_path: Path) -> None:
    box = sandboxes.standing_in(tmp_path / "place")
    box.start()
    begun: list[float] = []

    def clock() -> float:
        # The run's time goes by once its model has replied: a busy machine may take seconds until then.
        return time.monotonic() - begun[0] if begun else 0.0

    def calls_on(_: object) -> str:
        begun.append(time.monotonic())
        return CALLING_ON

    meter = RunMeter(RunBounds(run_wall_s=2), clock)
    made = Setting(tmp_path / "bank", [calls_on, answer("Two.")], meter=meter)
    result = made.run("rlm", lambda: box)
    assert [step.error_code for step in made.steps] == ["wall_timeout"] and result.bound == "run_wall_s"


# -------------------------------------------------------------------- whole loops

MODEL: dict[str, Any] = {"lm": LmChoice(model="test/turns"), "judge": NOBODY, "extract": False}


def ran(bank: Bank, said: list[Any], interpreters: Any = quick_code, tasks: Any = TASKS, **options: Any) -> Any:
    """Run a loop whose agent says this."""
    turns = Turns(said)
    return looped(bank, LoopSettings(**MODEL, **options), tasks, interpreters=interpreters, model_for=turns.model_for)


def hostile_places(patch: pytest.MonkeyPatch) -> Callable[[], Sandbox]:
    """Sandboxes whose guests forge every submission."""
    stand_in(patch)
    ScriptedProcess.script = iter(lambda: final("not JSON"), None)
    return lambda: Sandbox(take_session=take_session)


@pytest.mark.parametrize("name", WITH_CODE)
def test_forged_submissions_cost_their_runs_and_the_loop_takes_the_next_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """They ended the loop with an error of JSON, and again at the same task whenever it was resumed."""
    with quick(tmp_path / "bank") as bank:
        results = ran(bank, [code("pass")] * 99, hostile_places(monkeypatch), executor=name)
        assert [result.error_code for result in results] == ["sandbox_exhausted"] * 2
        assert not any(result.undone for result in results), "the same command must not run them for ever"
        steps = [event for event in bank.events() if isinstance(event, StepTaken)]
        assert [step.error_code for step in steps] == ["broken"] * 2 * (sandbox_limits.SANDBOX_RESTARTS + 1)
        assert not any(process.alive for process in ScriptedProcess.made)


@pytest.mark.slow
def test_rollouts_side_by_side_are_bounded_each(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        said: list[Any] = [lambda request: answer("Two.") if "used up" in str(request.system) else NOTES] * 30
        bounds = RunBounds(run_calls=3)
        [result] = ran(bank, said, tasks=TASKS[:1], rollouts=3, bounds=bounds, executor="scratchpad")
        ends = [event for event in bank.events() if isinstance(event, RunFinished)]
        assert len(result.runs) == 3 and [end.bound for end in ends] == ["run_calls"] * 3
        assert all(made.identical for made in reruns(bank))


NOTES = code("for n in range(9): last = event_log({'n': n})\nprint(last)")


def reruns(bank: Bank) -> Iterator[Any]:
    """What comes of each run of a bank when it is run again."""
    return (rerun(bank, run, ontologies=shipped()) for run in runs_of(bank))


SPENT: dict[str, tuple[dict[str, float], str | None]] = {
    "calls of a step": ({"step_calls": 4}, None),
    "calls of the run": ({"run_calls": 12}, "run_calls"),
    "payloads of a step": ({"step_payload_bytes": 300}, None),
    "payloads of the run": ({"run_payload_bytes": 1_000}, "run_payload_bytes"),
    "bytes of a step": ({"step_log_bytes": 4_000}, None),
    "bytes of the run": ({"run_log_bytes": 30_000}, "run_log_bytes"),
    "time of the run": ({"run_wall_s": 0.000_1}, "run_wall_s"),
}
_LOOKS = "for n in range(5): last = sparql_query('SELECT ?l { ?l a lt:Lighthouse }'); event_log({'n': last['ok']})"
LOOKS = [code(f"{_LOOKS}  # {word}") for word in ("one", "two", "three", "four", "five", "six")]


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[] if "calls" in what else [pytest.mark.slow]) for what in SPENT]
)
def test_a_run_that_spent_a_bound_comes_out_the_same_again(tmp_path: Path, what: str) -> None:
    given, bound = SPENT[what]
    with quick(tmp_path / "bank") as bank:
        said: list[Any] = [*LOOKS[:4], answer("Two.")]
        if bound == "run_wall_s":
            said = said[-1:]
        elif bound is not None:
            said = [
                lambda request, looks=looks: answer("Two.") if "used up" in str(request.system) else looks
                for looks in LOOKS
            ]
        bounds = RunBounds(**given)  # type: ignore[arg-type]
        ran(bank, said, tasks=TASKS[:1], bounds=bounds, iterations=4, executor="scratchpad")
        [end] = [event for event in bank.events() if isinstance(event, RunFinished)]
        [started] = [event for event in bank.events() if isinstance(event, RunStarted)]
        assert end.bound == (bound or "iterations") and started.bounds == bounds
        codes = {event.error_code for event in bank.events() if isinstance(event, ToolCalled)} - {None}
        assert codes == ({bound} if bound in ("run_calls", "run_payload_bytes") else set(given) if not bound else codes)
        [again] = reruns(bank)
        assert again.difference is None


# -------------------------------------------------------------------- as people set them


@pytest.mark.slow
def test_bounds_are_set_shown_and_recorded_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "turns.toml").write_text(SCRIPT)
    (tmp_path / "tasks.json").write_text('[{"id": "mad", "question": "How many?"}]')
    given = ("--ont", "lights", "--lm", "script:turns.toml", "--tasks", "tasks.json", "--executor", "react")
    bounds = ("--bound", "run_calls=2", "--bound", "run_wall_s=600.5")
    shown = cli("run", "./bank", *given, *bounds, "--dry-run", cwd=tmp_path).out
    assert re.search(r"calls: calls of tools +200 +2\n", shown) and "600.5" in shown
    told = cli("run", "./bank", *given, *bounds, "--dry-run", "--json", cwd=tmp_path).json
    assert told["settings"]["bounds"]["run_calls"] == 2
    result = cli("run", "./bank", *given, *bounds, "--judge", "none", "--json", cwd=tmp_path).json["results"][0]
    assert result["outcome"] == "forced_at_limit"
    with Bank.open(str(tmp_path / "bank")) as bank:
        [started] = [event for event in bank.events() if isinstance(event, RunStarted)]
        assert started.bounds == RunBounds(run_calls=2, run_wall_s=600.5)
    assert "forced at limit (run_calls)" in cli("show", "./bank", result["run"], cwd=tmp_path).out


SCRIPT = """\
name = "mad"
[[task]]
id = "mad"
[[task.agent]]
fields = { next_thought = "a", next_tool_name = "g_stats", next_tool_args = {} }
[[task.agent]]
fields = { next_thought = "b", next_tool_name = "g_stats", next_tool_args = {} }
[[task.agent]]
fields = { next_thought = "c", next_tool_name = "g_stats", next_tool_args = {} }
[[task.agent]]
fields = { reasoning = "d", answer = "Two.", sparql = "", evidence = {} }
"""


@pytest.mark.slow
def test_the_trial_of_tools_has_the_bounds_of_a_run(tmp_path: Path) -> None:
    calls = cli("tools", "--bound", "run_calls=1", "--call", "g_stats", "--call", "g_stats", "--json", cwd=tmp_path)
    assert [call["result"]["ok"] for call in calls.json["calls"]] == [True, False]


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("step_call=5", "did you mean 'step_calls'"),
        ("step_calls", "write a name and a number"),
        ("step_calls=many", "write a name and a number"),
        ("step_calls=0", "give a number above 0"),
        ("run_wall_s=nan", "give a number above 0"),
        ("run_wall_s=inf", "give a number above 0"),
    ],
)
def test_a_bound_that_can_not_be_is_refused(tmp_path: Path, bound: str, words: str) -> None:
    assert words in fails("tools", "--bound", bound, cwd=tmp_path)
