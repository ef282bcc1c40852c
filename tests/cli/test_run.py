"""`rbank-es run` and `rbank-es guide`: agents set to work from the command line."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared import loop_progress
from rbank_es.cli.shared.ending_table import endings_of, print_endings
from rbank_es.cli.shared.loop_progress import LoopDisplay, RunAtWork
from rbank_es.events import ContextBuilt, LmCalled, RunFinished, RunJudged, RunStarted, StepTaken, ToolCalled
from rbank_es.models.scripted_model import rendered
from tests.cli_runner import digest_of, fails, on_terminal, run
from tests.loop.loops import HEIGHT, SCRIPT, TASKS, source
from tests.loop.test_closed_loop import of_type
from tests.loop.test_guide_run import SCRIPT as GUIDE_SCRIPT
from tests.loop.test_matts import SCRIPT as MATTS_SCRIPT
from tests.models.openai_server import openai_server
from tests.places import derived
from tests.real.test_real_engines import oxigraph
from tests.sandbox.sandboxes import require_dspy, runtime

require_dspy()

CANNED = """\
[[task]]
id = "success_case"
[[task.judge]]
fields = { success = true, reason = "The height is right." }
[[task.extractor]]
[[task.extractor.fields.memory_items]]
title = "Tell the heights of towers and lights apart"
description = "d"
content = "Use lt:focalHeight."
[[task]]
id = "*"
[[task.extractor]]
fields = { memory_items = [], why_none = "nothing" }
"""
SEED = [{"id": "seed-1", "title": "Count with COUNT(DISTINCT ?x)", "content": "Always.", "src": "seed", "tags": []}]


# One worker loops once for all of these.
pytestmark = pytest.mark.xdist_group("cli-run")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with tasks and scripts."""
    return furnished(tmp_path)


def furnished(tmp_path: Path) -> Path:
    fields = ("id", "question", "gold_sparql", "ontology")
    tasks = [{name: value for name in fields if (value := getattr(task, name)) is not None} for task in TASKS]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    scripts = {"turns": SCRIPT, "matts": MATTS_SCRIPT, "canned": CANNED, "guide": GUIDE_SCRIPT}
    for name, script in scripts.items():
        (tmp_path / f"{name}.toml").write_text(script)
    (tmp_path / "seed.json").write_text(json.dumps(SEED))
    return tmp_path


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
def test_a_loop_notes_the_head_after_each_task(finished: Finished) -> None:
    """Each line holds; a file that can't be written is refused before the first task."""
    place = finished.place
    heads = place / "heads.txt"
    assert (len(heads.read_text().splitlines()), heads.stat().st_mode & 0o777) == (2, 0o600)
    assert "noted heads that hold  2" in run("verify", "./bank", "--head", "heads.txt", cwd=place).out
    for file, said in (("/dev/full", "it is a device"), ("bank/heads", "own directory")):
        assert said in fails(*LOOP, "--again", "--heads", file, cwd=place)
    assert finished.told["head"] == run("head", "./bank", "--json", cwd=place).json["head"]


@pytest.mark.slow
def test_a_loop_in_memory_keeps_nothing_but_the_items_that_are_saved(place: Path) -> None:
    """`run memory:` makes no directory, and says that its bank is lost; the items may be saved."""
    before = {path.name for path in place.iterdir()}
    done = run("run", "memory:", *LOOP[2:], "--extract", "--save-mem", "items.json", "--json", cwd=place)
    assert (done.json["bank"], done.json["created"], len(done.json["results"])) == ("memory", True, 2)
    assert "memory: is lost when this command ends" in done.err
    assert {path.name for path in place.iterdir()} - before == {"items.json"}
    # The third is the pattern of a query, which needs no word of a person under the standard policy of admission.
    assert len(json.loads((place / "items.json").read_text())) == 3


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


def test_for_programs_the_results_are_json_and_a_second_time_nothing_is_done(finished: Finished) -> None:
    """The second time for people, and after all derived files have gone, as they may at any time."""
    first = finished.told
    assert first["created"] and first["scripted"] and first["model"] == "script:turns"
    assert [result["verdict"] for result in first["results"]] == ["failure", "success"]
    for path in derived(finished.place / "bank").iterdir():
        path.unlink()
    shown = run(*LOOP, "--extract", cwd=finished.place).out
    assert shown.count("done before") == 2 and first["head"] in shown


@pytest.mark.slow
def test_extracting_turns_the_sense_card_on_and_leaving_it_out_is_warned_of(finished: Finished) -> None:
    warned = run(*LOOP, "--extract", "--no-l0", cwd=finished.place, code=None)
    assert "without L0" in warned.err
    plain = run("run", "./plain", *LOOP[2:], "--judge", "none", cwd=finished.place, code=None)
    assert "without L0" not in plain.err
    with Bank.open(finished.place / "bank") as bank, Bank.open(finished.place / "plain") as other:
        assert of_type(bank, RunStarted)[0].layers == ("L0", "L2")
        assert of_type(bank, RunStarted)[-1].layers == ("L2",)
        assert of_type(other, RunStarted)[0].layers == ("L2",)


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


@pytest.mark.slow
def test_layers_budgets_and_mode_are_those_that_are_asked_for(place: Path) -> None:
    run(*LOOP, "--l0", "--l1", "--l3", "--no-l2", "--budget", "L1=300", "--mode", "tools", "--preset", "lean",
        "--iterations", "3", cwd=place, code=None)  # fmt: skip
    with Bank.open(place / "bank") as bank:
        started, context = of_type(bank, RunStarted)[0], of_type(bank, ContextBuilt)[0]
        assert (started.layers, started.mode, started.iterations_max) == (("L0", "L1", "L3"), "tools", 3)
        assert [(use.layer, use.budget) for use in context.layers[1:]] == [("L0", 600), ("L1", 300), ("L3", 200)]
        assert all(use.chars for use in context.layers), "the shipped ontology comes with constraints and a guide"


@pytest.mark.slow
def test_rollouts_from_the_command_line(place: Path) -> None:
    """--matts-k alone means --matts."""
    tasks = [{"id": TASKS[0].id, "question": TASKS[0].question, "gold_sparql": HEIGHT}]
    (place / "one.jsonl").write_text(json.dumps(tasks[0]))
    done = run("run", "./bank", *FAST, "--tasks", "one.jsonl", "--lm", "script:matts.toml", "--matts-k", "3", cwd=place)
    assert "pass@1" in done.out and "0.67" in done.out and "(sparql)" in done.out
    with Bank.open(place / "bank") as bank:
        assert [event.rollout_index for event in of_type(bank, RunStarted)] == [0, 1, 2]
        kinds = [getattr(event, "kind", "") for event in bank.events(types={"memories_extracted"})]
        assert kinds[:2] == ["contrastive", "pattern"]


def test_one_question_needs_no_file(place: Path) -> None:
    (place / "any.toml").write_text(
        '[[task]]\nid = "*"\n[[task.agent]]\nreasoning = "r"\n'
        "code = \"SUBMIT(answer='nine', sparql='', evidence={})\"\n"
    )
    done = run("run", "./bank", *FAST, "--task", "How many lights?", "--lm", "script:any.toml", "--judge", "checks",
               "--json", cwd=place)  # fmt: skip
    [result] = done.json["results"]
    assert result["task"].startswith("task-") and result["answer"] == "nine"


@pytest.mark.slow
def test_a_loop_that_left_runs_unjudged_exits_with_1_and_names_the_command_that_goes_on(place: Path) -> None:
    """It exited with 0, and nobody saw that nothing had been learned."""
    (place / "mute.toml").write_text(
        '[[task]]\nid = "*"\n[[task.agent]]\nreasoning = "r"\n'
        "code = \"SUBMIT(answer='nine', sparql='SELECT ?l { ?l a lt:Lighthouse }', evidence={})\"\n"
        + '[[task.judge]]\nerror = "timeout"\n'
        * 3
    )
    command = ("run", "./bank", *FAST, "--task", "How many lights?", "--lm", "script:mute.toml")
    done = run(*command, cwd=place, code=1)
    told = "rbank-es judge run ./bank --unjudged --judge-lm script:mute.toml --ont lights"
    assert "1 run left without a verdict" in done.err and told in done.err
    (place / "mute.toml").write_text('[[task]]\nid = "*"\n[[task.judge]]\ntext = "**success**"\n')
    assert "success" in run(*told.split()[1:], cwd=place).out
    assert run(*command, cwd=place).out.count("done before") == 1


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


# ---------------------------------------------------------------- what is left undone


@pytest.mark.slow
def test_tasks_that_are_left_undone_end_in_an_exit_code_and_are_run_by_the_same_command(place: Path) -> None:
    """The provider was too slow for both: nobody judges that, the table says so, and nothing of it counts as done."""
    (place / "turns.toml").write_text('[[task]]\nid = "*"\n[[task.agent]]\nerror = "timeout"\n')
    shown = run(*LOOP, "--extract", cwd=place, code=2)
    assert shown.out.count("failed (timeout)  not judged") == 2
    assert "2 tasks of 2 left undone" in shown.err and "the same command runs these" in shown.err
    told = run(*LOOP, "--extract", "--json", cwd=place, code=2).json
    assert [each["error_code"] for each in told["results"]] == ["timeout", "timeout"]
    (place / "turns.toml").write_text(SCRIPT)
    assert [each["how"] for each in looped(place, "--extract")["results"]] == ["ran", "ran"]


@pytest.mark.slow
def test_what_was_done_is_shown_where_the_loop_stops(place: Path) -> None:
    (place / "turns.toml").write_text(SCRIPT.replace('["Use lt:focalHeight for heights"]', '["What is not there"]'))
    shown = run(*LOOP, "--extract", cwd=place, code=2)
    assert "height  submitted  failure" in shown.out and "stopped after 1 of 2 tasks" in shown.out
    assert "expects 'What is not there'" in shown.err


# ---------------------------------------------------------------- memory


@pytest.mark.slow
def test_memory_is_loaded_before_and_saved_after(place: Path) -> None:
    looped(place, "--extract", "--load-mem", "seed.json", "--save-mem", "mem.json")
    saved = json.loads((place / "mem.json").read_text())
    assert {item["src"] for item in saved} == {"seed", "failure", "success"}
    run("import", "./other", "mem.json", "--create", cwd=place)
    assert "inside the bank" in fails(*LOOP, "--save-mem", "bank/mem.json", cwd=place)


@pytest.mark.slow
def test_memory_is_not_saved_over_what_the_run_reads(place: Path) -> None:
    """The file that it is loaded from may be renewed."""
    before = digest_of(place)
    for file in ("turns.toml", "tasks.json", "../" + place.name + "/tasks.json"):
        assert "which the run reads" in fails(*LOOP, "--save-mem", file, cwd=place)
    assert digest_of(place) == before
    looped(place, "--extract", "--load-mem", "seed.json", "--save-mem", "seed.json")
    assert len(json.loads((place / "seed.json").read_text())) > 1


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


def test_memory_that_can_not_be_loaded_is_refused_before_a_bank_is_made(place: Path) -> None:
    (place / "seed.json").write_text("no JSON at all")
    assert "of no known form" in fails(*LOOP, "--load-mem", "seed.json", cwd=place)
    assert "none.json" in fails(*LOOP, "--load-mem", "none.json", cwd=place)
    assert "not a directory" in fails(*LOOP, "--save-mem", "none/mem.json", cwd=place)
    assert not (place / "bank").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that takes no file, even from its owner")
def test_memory_that_can_not_be_saved_loses_nothing(place: Path) -> None:
    """The results are shown, then the error; all is in the bank."""
    shown = run(*LOOP, "--extract", "--save-mem", "/proc/self/mem.json", cwd=place, code=2)
    assert "again   submitted  success" in shown.out and "can't write /proc/self/mem.json" in shown.err
    assert [each["how"] for each in looped(place, "--extract")["results"]] == ["known", "known"]


# ---------------------------------------------------------------- trying


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


def test_the_whole_manual_of_tools_is_a_choice_that_costs_tokens(place: Path) -> None:
    """Some 7,000 characters in each prompt of at most 13 calls; the setting is recorded with its runs."""
    asked = ("run", "./none", *FAST, "--task", "Which?", "--dry-run", "--json")
    short, whole = run(*asked, cwd=place).json, run(*asked, "--tools", "all", cwd=place).json
    assert (short["settings"]["tool_manual"], whole["settings"]["tool_manual"]) == ("short", "all")
    [before], [after] = ([each["calls"][0]["tokens_most"] for each in told["tasks"]] for told in (short, whole))
    assert 13 * 1_500 < after - before < 13 * 2_200


def test_a_dry_run_counts_no_calls_for_what_is_done(finished: Finished) -> None:
    """Those of a task that was cut off before it was learnt from are counted, and with --again all are."""
    command = (*LOOP, "--extract", "--dry-run")
    before = digest_of(finished.place)
    said = run(*command, cwd=finished.place).out
    assert said.count("finished before") == 2 and "2 tasks: 0 to 0 calls" in said
    again = run(*command, "--again", "--json", cwd=finished.place).json["tasks"]
    assert [len(task["calls"]) for task in again] == [4, 4]
    other = run(*LOOP, "--judge", "checks", "--dry-run", "--json", cwd=finished.place).json["tasks"]
    assert all(task["calls"] for task in other) and digest_of(finished.place) == before


@pytest.mark.slow
def test_judging_and_extracting_are_tried_on_made_up_runs(place: Path) -> None:
    """No executor, and the bank that is named isn't even made."""
    done = run("run", "./bank", "--test", "--lm", "script:canned.toml", "--json", cwd=place).json
    verdicts = {case["case"]: (case["verdict"], case["kind"]) for case in done["cases"]}
    assert verdicts == {
        "success_case": ("success", "lm"),
        "failure_case": ("failure", "check"),
        "nonconverged": ("failure", "check"),
    }
    assert done["cases"][0]["items"][0]["title"].startswith("Tell the heights")
    assert done["kept"] is False and done["scripted"] and not (place / "bank").exists()
    assert "nothing was kept" in run("run", "./bank", "--test", "--lm", "script:canned.toml", cwd=place).out


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


@pytest.mark.parametrize(
    ("executor", "waits"), [("rlm", "the sandbox"), ("react", "a tool"), ("unknown", "the sandbox")]
)
def test_after_an_answer_of_the_model_what_runs_depends_on_the_executor(executor: str, waits: str) -> None:
    run = RunAtWork(0.0)
    run.take(RunStarted(run="r", executor=executor), 1.0)
    run.take(ANSWERED, 2.0)
    assert (run.at, run.waits, run.since) == ("step 1", waits, 2.0)


def test_the_line_is_redrawn_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is wiped: then somebody else prints."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(loop_progress, "REDRAW_S", 0.01)
    with LoopDisplay() as live:
        live.task(TASKS[0], 1, 1)
        deadline = time.monotonic() + 30
        while screen.getvalue().count("retrieving") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        live.wipe()
        drawn = screen.getvalue()
        time.sleep(0.05)
        assert screen.getvalue() == drawn


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


# ---------------------------------------------------------------- the guide


@pytest.mark.slow
def test_a_guide_is_written_once_and_shown_as_runs_see_it(place: Path) -> None:
    command = ("guide", "./bank", *FAST, "--lm", "script:guide.toml")
    done = run(*command, cwd=place)
    assert "Lighthouses have a focal height." in done.out and "scripted" in done.out
    again = run(*command, "--json", cwd=place).json
    assert again["how"] == "known" and again["chars"] == len(again["text"]) and again["cost_usd"] is None
    assert "no model is named" in fails("guide", "./bank", *FAST, cwd=place)
    warned = run(*LOOP, "--l3", cwd=place, code=None).err
    assert "there is no guide" not in warned
