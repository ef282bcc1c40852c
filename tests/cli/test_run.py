"""`rbank-es run` and `rbank-es guide`: agents set to work from the command line."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.ending_table import endings_of, print_endings
from rbank_es.cli.shared.loop_progress import LoopDisplay
from rbank_es.events import LmCalled, RunFinished, RunJudged, RunStarted, StepTaken, ToolCalled
from rbank_es.models.scripted_model import rendered
from tests.cli.agent_tasks import furnished
from tests.cli_runner import digest_of, fails, on_terminal, run
from tests.loop.loops import HEIGHT, TASKS, source
from tests.loop.test_closed_loop import of_type
from tests.models.openai_server import openai_server
from tests.real.test_real_engines import oxigraph
from tests.sandbox.sandboxes import require_dspy, runtime

require_dspy()


# One worker loops once for all of these.
pytestmark = pytest.mark.xdist_group("cli-run")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with tasks and scripts."""
    return furnished(tmp_path)


FAST = ("--ont", "lights", "--executor", "scratchpad", "--unsafe-local")
LOOP = ("run", "./bank", *FAST, "--tasks", "tasks.json", "--lm", "script:turns.toml")


def looped(place: Path, *more: str) -> Any:
    return run(*LOOP, *more, "--json", cwd=place).json


class Finished(NamedTuple):
    """A directory in which a loop ended, what it told, and its standard error."""

    place: Path
    told: Any
    err: str


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    place = furnished(tmp_path_factory.mktemp("once"))
    done = run(*LOOP, "--extract", "--heads", "heads.txt", "--json", cwd=place)
    return Finished(place, done.json, done.err)


@pytest.fixture
def finished(once: Finished, tmp_path: Path) -> Finished:
    """A copy for one test."""
    shutil.copytree(once.place, tmp_path, dirs_exist_ok=True)
    return once._replace(place=tmp_path)


# ---------------------------------------------------------------- a loop


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
def test_a_loop_in_the_real_sandbox_learns_from_its_first_task(place: Path) -> None:
    """The bank is made; a table tells of each task; everywhere it says that a script stood in for the model."""
    warmed = {"RBANK_CACHE": str(runtime().cache.parent)}
    done = run(*(word for word in LOOP if word != "--unsafe-local"), "--extract", cwd=place, env=warmed)
    rows = [line.split() for line in done.out.splitlines()[1:3]]
    assert [row[:4] for row in rows] == [
        ["height", "submitted", "failure", "wrong"],
        ["again", "submitted", "success", "right"],
    ]
    assert "1 of 2 decided" in done.out and "scripted: a script stood in for the model" in done.out
    assert "scripted: a script stood in for the model" in done.err and "UNSAFE" not in done.err
    run("verify", "./bank", "--retrievals", cwd=place)
    with Bank.open(place / "bank") as bank:
        assert all(event.scripted and event.model == "script:turns" for event in of_type(bank, RunStarted))


def test_every_choice_reaches_the_settings(place: Path) -> None:
    """As they would be recorded with each run; `--matts-k` alone means `--matts`."""
    chosen = {
        "--executor": "scratchpad", "--iterations": 7, "--lm": "a/agent", "--sub-lm": "b/sub", "--judge-lm": "c/judge",
        "--extractor-lm": "d/extractor", "--lm-arg": "max_tokens=9", "--preset": "lean", "--budget": "L1=300",
        "--mode": "tools", "--judge": "lm", "--matts-k": 4, "--perturb": "rephrase", "--temperature": 0.5,
    }  # fmt: skip
    words = [str(word) for pair in chosen.items() for word in pair]
    flags = ("--no-l0", "--l1", "--no-l2", "--l3", "--supervised", "--dry-run", "--json")
    told = run("run", "./none", "--ont", "lights", "--tasks", "tasks.json", *words, *flags, cwd=place).json["settings"]
    models = {"lm": "a/agent", "sub_lm": "b/sub", "judge_lm": "c/judge", "extractor_lm": "d/extractor"}
    assert {name: told[name]["model"] for name in models} == models
    assert told["lm"]["arguments"] == {"max_tokens": 9} and told["budgets"] == {"L1": 300}
    expected = {
        "executor": "scratchpad", "iterations": 7, "preset": "lean", "mode": "tools", "judge": "lm", "rollouts": 4,
        "perturbation": "rephrase", "temperature": 0.5, "layers": ["L1", "L3"], "supervised": True, "extract": True,
        "extract_from": None, "unsafe_local": False,
    }  # fmt: skip
    assert {name: told[name] for name in expected} == expected
    assert told["constraints"] and told["guide"], "those of the shipped ontology, by digest"


ASKING = """\
[[task]]
id = "*"
[[task.agent]]
fields = { next_thought = "Ask.", next_tool_name = "sparql_query", next_tool_args = { query = "QUERY" } }
[[task.agent]]
fields = { next_thought = "Done.", next_tool_name = "SUBMIT", next_tool_args = { answer = "45 m", sparql = "QUERY" } }
[[task.judge]]
fields = { success = true, reason = "It is." }
[[task.extractor]]
fields = { memory_items = [], why_none = "nothing new" }
""".replace("QUERY", " ".join(HEIGHT.split()))


@pytest.mark.slow
def test_an_endpoint_is_asked_over_http_and_one_that_is_down_is_told(place: Path) -> None:
    """A real SPARQL server; then the same command after it is gone: its errors reach the agent as data, and the judge
    is told that the query never ran.
    """
    (place / "asking.toml").write_text(ASKING)
    with oxigraph(place / "server", source().ontology.quads) as url:  # type: ignore[union-attr]
        command = ("run", "./bank", "--endpoint", url, "--task", TASKS[0].question, "--executor", "react",
                   "--lm", "script:asking.toml", "--extract", "--json")  # fmt: skip
        [result] = run(*command, cwd=place).json["results"]
        assert result["verdict"] == "success" and result["answer"] == "45 m" and result["candidates"] > 0
    with Bank.open(place / "bank") as bank:
        [started] = of_type(bank, RunStarted)
        assert started.endpoint == url and started.layers == ("L0", "L2")
        assert [event.error_code for event in of_type(bank, ToolCalled)] == [None]
    [result] = run(*command, "--again", cwd=place).json["results"]
    assert result["outcome"] == "submitted"
    with Bank.open(place / "bank") as bank:
        assert of_type(bank, ToolCalled)[-1].error_code is not None
        assert "query_not_run" in of_type(bank, RunJudged)[-1].evidence
    run("verify", "./bank", "--retrievals", cwd=place)


@pytest.mark.slow
def test_a_pipe_or_a_device_is_never_replaced_by_a_file_and_a_link_stays_one(place: Path) -> None:
    """By none of the options that name a file to write. (A pipe stands in: a device can't be made by everybody.)"""
    os.mkfifo(place / "pipe")
    (place / "device").symlink_to("pipe")
    (place / "link.json").symlink_to("mem.json")
    assert "it is a named pipe" in fails(*LOOP, "--save-mem", "pipe", cwd=place)
    assert "it is a named pipe" in fails(*LOOP, "--save-mem", "device", cwd=place)
    looped(place, "--extract", "--save-mem", "link.json")
    assert "it is a named pipe" in fails("export", "./bank", "--format", "items", "-o", "pipe", cwd=place)
    assert "it is a named pipe" in fails("dashboard", "./bank", "-o", "device", cwd=place)
    assert (place / "pipe").is_fifo() and (place / "device").is_symlink()
    assert (place / "link.json").is_symlink() and json.loads((place / "mem.json").read_text())


# ---------------------------------------------------------------- trying


def test_without_a_sandbox_nothing_is_begun(place: Path) -> None:
    """Its parts were never fetched here: what to do is said before a bank is made."""
    command = [word for word in LOOP if word != "--unsafe-local"]
    shown = run(*command, cwd=place, env={"RBANK_CACHE": str(place / "cache")}, code=2)
    assert "rbank-es doctor --warm" in shown.err and not (place / "bank").exists()


def test_a_dry_run_prints_contexts_and_estimates_and_writes_nothing(finished: Finished) -> None:
    place = finished.place
    before = digest_of(place)
    done = run("run", "./bank", *FAST, "--tasks", "tasks.json", "--l0", "--extract", "--dry-run", cwd=place)
    assert "# Graph: The lights" in done.out and "Guardrails:" in done.out and "unnamed/model" in done.out
    assert "No model was called and nothing was written." in " ".join(done.out.split())
    told = run("run", "./none", *FAST, "--task", "Which?", "--matts", "--dry-run", "--json", cwd=place).json
    [task] = told["tasks"]
    agent = next(each for each in task["calls"] if each["role"] == "agent")
    assert (agent["least"], agent["most"]) == (3, 39) and agent["tokens_most"] > 10_000
    assert told["written"] is False and digest_of(place) == before
    Path(place / "items.json").write_text("[]")
    loading = ("--load-mem", "items.json", "--budget", "L2=900", "--dry-run")
    warned = run("run", "./none", *FAST, "--task", "Which?", *loading, cwd=place).err
    assert "a dry run writes nothing" in warned and "L2 has 900 characters instead of 600" in warned


# ---------------------------------------------------------------- progress


@pytest.mark.slow
def test_on_a_terminal_progress_is_shown_and_wiped(place: Path) -> None:
    shown = on_terminal(*LOOP, "--extract", cwd=place).out
    assert "\r\x1b[2Ktask 1 of 2, height: " in shown and "step 1 of 12, sparql_query" in shown and "tokens" in shown
    assert "height: failure, 2 steps" in shown and "again: success, 1 step" in shown
    drawn = [piece for piece in shown.split("\r\x1b[2K") if piece.startswith("task ") and "\n" not in piece]
    assert len(drawn) > 5 and all(len(piece) < 100 for piece in drawn)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock of seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


ANSWERED = LmCalled(run="r", role="agent", model="m", tokens_in=1_000, tokens_out=34, duration_s=2.0)
JUDGED = RunJudged(run="r", purpose="learning", verdict="success", judge="j", judge_version="1", kind="lm")


def test_the_line_tells_task_step_wait_tokens_cost_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for, as the events of a run show it, and for how long; the cost only where there is one."""
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "150")
    live = LoopDisplay(clock=clock)
    live.task(TASKS[0], 2, 3)
    live.events([RunStarted(run="r", task_id="height", executor="rlm", iterations_max=2)])
    clock.now = 12.4
    live.redraw()
    live.events([ANSWERED])
    live.events([ToolCalled(run="r", tool="sparql_query", step=1)])
    live.events([StepTaken(run="r", index=1, error_code="raised")])
    live.events([StepTaken(run="r", index=2)])
    live.events([RunFinished(run="r", outcome="submitted")])
    live.events([LmCalled(run="r", role="judge", model="m", tokens_in=1, cost_usd=0.0125), JUDGED])
    live.wipe()
    spent = "(1 call, 1,034 tokens, 17 a second)"
    assert screen.getvalue().split("\r\x1b[2K")[1:] == [
        "task 2 of 3, height: retrieving (0 calls, 0 tokens)",
        "task 2 of 3, height: step 1 of 2; the model's answer (0 calls, 0 tokens)",
        "task 2 of 3, height: step 1 of 2; the model's answer, 12 s (0 calls, 0 tokens)",
        f"task 2 of 3, height: step 1 of 2; the sandbox {spent}",
        f"task 2 of 3, height: step 1 of 2, sparql_query; the sandbox {spent}",
        f"task 2 of 3, height: step 2 of 2, 1 failed; the model's answer {spent}",
        f"task 2 of 3, height: after the last step; the model's answer {spent}",
        f"task 2 of 3, height: submitted; judging; the model's answer {spent}",
        "task 2 of 3, height: success; learning; the model's answer (2 calls, 1,035 tokens, $0.0125, 17 a second)",
        "",
    ]


@pytest.mark.parametrize("scripted", [False, True])
def test_off_a_terminal_each_step_that_a_model_took_has_a_line(
    monkeypatch: pytest.MonkeyPatch, *, scripted: bool
) -> None:
    screen, clock = io.StringIO(), Clock()
    monkeypatch.setattr(sys, "stderr", screen)
    with LoopDisplay(clock=clock) as live:
        live.task(TASKS[0], 1, 1)
        live.events([RunStarted(run="r", task_id="height", executor="react", rollout_index=1, scripted=scripted)])
        clock.now = 3.0
        live.events([ANSWERED, ToolCalled(run="r", tool="mem_search", step=1), StepTaken(run="r", index=1)])
        clock.now = 4.0
        live.events([ANSWERED, StepTaken(run="r", index=2, error_code="unreadable")])
    lines = [
        "height, rollout 1: step 1, 3 s, the model 2 s (1 call, 1,034 tokens, 17 a second)",
        "height, rollout 1: step 2 failed (unreadable), 1 s, the model 2 s (2 calls, 2,068 tokens, 17 a second)",
    ]
    assert screen.getvalue().splitlines() == ([] if scripted else lines)


@pytest.mark.slow
def test_verbosely_every_event_is_shown_elsewhere_nothing(finished: Finished) -> None:
    assert "tool_called" not in finished.err and "\x1b" not in finished.err
    loud = run(*LOOP, "--extract", "--again", "-v", "--json", cwd=finished.place)
    assert "tool_called: sparql_query" in loud.err and "run_finished: submitted" in loud.err


def test_at_the_end_runs_are_counted_by_why_they_ended_with_what_to_do_about_the_commonest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is said where all submitted an answer; the command names the bank where there is one."""
    submitted = [RunFinished(run=f"a{number}", outcome="submitted") for number in range(3)]
    print_endings(endings_of(submitted), "./bank")
    assert capsys.readouterr().out == ""
    forced = [RunFinished(run=f"b{number}", outcome="forced_at_limit") for number in range(2)]
    print_endings(endings_of([*submitted, *forced, RunFinished(run="c", outcome="failed")]), "./my bank")
    told = " ".join(capsys.readouterr().out.split())
    assert "3 submitted a2 2 forced_at_limit b1 1 failed c" in told
    assert "`rbank-es show './my bank' b1 --prompts`" in told


# ---------------------------------------------------------------- a model over HTTP


@pytest.mark.slow
def test_a_model_of_ones_own_is_asked_over_http_and_its_key_is_nowhere(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command, a server that speaks as OpenAI does, a key in the environment."""
    key = "sk-of-a-test-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    code = f"found = sparql_query({HEIGHT!r})\nSUBMIT(answer='45 metres', sparql={HEIGHT!r}, evidence={{}})"
    items = [{"title": "Ask for the focal height", "description": "d", "content": "Use lt:focalHeight."}]
    answers = [
        rendered({"reasoning": "r", "code": f"```python\n{code}\n```"}),
        rendered({"success": True, "reason": f"Right; the key is {key}."}),
        rendered({"memory_items": items, "why_none": ""}),
    ]
    with openai_server(answers) as server:
        done = run(
            "run", "./bank", *FAST, "--task", TASKS[0].question, "--lm", "openai/stub", "--api-base", server.url,
            "--lm-arg", "max_tokens=500", "--extract", "--json", cwd=place,
        )  # fmt: skip
        [result] = done.json["results"]
        assert result["verdict"] == "success" and not done.json["scripted"] and len(server.requests) == 3
        assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert key not in done.out + done.err
    for path in (place / "bank").rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path
    with Bank.open(place / "bank") as bank:
        assert [event.role for event in of_type(bank, LmCalled)] == ["agent", "judge", "extractor"]
