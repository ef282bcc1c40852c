"""`rbank-es run` and `rbank-es guide`: what they refuse before anything is made, and how they say what went wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_run import FAST, LOOP, furnished
from tests.cli_runner import fails, run
from tests.loop.loops import SCRIPT, TASKS
from tests.loop.test_matts import SCRIPT as MATTS_SCRIPT
from tests.sandbox.sandboxes import require_dspy

require_dspy()

pytestmark = pytest.mark.xdist_group("cli-run")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with tasks and scripts."""
    return furnished(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--task", "?"), "no model is named"),
        (("--lm", "script:turns.toml"), "--task"),
        (("--lm", "script:turns.toml", "--task", "?", "--tasks", "tasks.json"), "--task"),
        (("--lm", "script:turns.toml", "--tasks", "none.json"), "can't be read"),
        (("--lm", "script:none.toml", "--task", "?"), "none.toml"),
        (("--lm", "openai/gpt-4.1-mini", "--task", "?"), "OPENAI_API_KEY"),
        (("--lm", "sk-0123456789abcdef0123", "--task", "?"), "looks like a key"),
        (("--lm", "script:turns.toml", "--task", "?", "--lm-arg", "api_key=x"), "looks like a key"),
        (("--lm", "script:turns.toml", "--task", "?", "--lm-arg", "foo=1"), "can't be given the argument foo"),
        (("--lm", "script:turns.toml", "--task", "?", "--iterations", "99999999999999999999"), "give 1 to 1,000"),
        (("--lm", "script:turns.toml", "--task", "?", "--temperature", "nan"), "'nan' is not a number"),
        (
            ("--lm", "script:turns.toml", "--task", "?", "--l1", "--constraints", "seed.json"),
            "seed.json: it is not TOML",
        ),
        (("--lm", "script:turns.toml", "--task", "?", "--judge", "none", "--extract"), "nobody judged"),
        (("--lm", "script:turns.toml", "--task", "?", "--endpoint", "uniprot"), "not both"),
        (("--lm", "script:turns.toml", "--task", "?", "--rise", "4/5"), "add --order curriculum"),
        (("--lm", "script:turns.toml", "--task", "?", "--order", "curriculum"), "tasks of two levels"),
        (("--lm", "script:turns.toml", "--tasks", "tasks.json", "--id", "kilns"), "call"),
    ],
)
def test_what_can_not_be_done_is_refused_before_a_bank_is_made(
    place: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    shown = run("run", "./bank", *FAST, *arguments, cwd=place, code=None)
    if words == "call":  # one of the two tasks is about no ontology by name
        assert "left out 1 task" in shown.err
        return
    assert shown.code == 2 and words in shown.err and not (place / "bank").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--perturb prefix", "add --matts"),
        ("--perturb prefix --matts-k 1", "more than one"),
        ("--extractor-lm a/b", "add --extract"),
        ("--judge checks --judge-lm a/b", "no model is asked to judge"),
        ("--judge none --supervised", "nobody judges"),
        ("--guide notes.md", "add --l3"),
        ("--constraints rules.toml", "add --l1"),
        ("--budget L1=90", "add --l1"),
        ("--budget L2=90 --no-l2", "leave out --no-l2"),
        ("--budget L2=90 --mode tools", "--mode tools"),
        ("--budget L2=90 --budget l2=91", "2 times"),
        ("--budget L9=90", "no layer is called 'L9'"),
        ("--mode tools --l2", "--l2 contradicts --mode"),
        ("--mode both --no-l2", "--no-l2 contradicts --mode"),
        ("--executor react", "leave out --unsafe-local"),
        ("--executor react --sub-lm a/b", "--sub-lm and --unsafe-local"),
        ("--api-base http://localhost:1/v1", "leave out --api-base"),
        ("--task ? --supervised", "has no right answer"),
        ("--tasks open.json --supervised", "no task of open.json has a right answer"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused_before_a_bank_is_made(
    place: Path, arguments: str, words: str
) -> None:
    """What to do about it is said, with the option's name."""
    (place / "open.json").write_text('[{"id": "open", "question": "Which lights are there?"}]')
    given = arguments.split()
    asked = () if "--task" in given or "--tasks" in given else ("--tasks", "tasks.json")
    assert words in fails("run", "./bank", *FAST, *asked, "--lm", "script:turns.toml", *given, cwd=place)
    assert not (place / "bank").exists()


def test_trying_the_judge_heeds_no_option_that_is_not_about_it(place: Path) -> None:
    """All that are given are named, also those that are given with their defaults."""
    idle = ["--ont", "lights", "--executor", "rlm", "--no-l2", "--matts", "--load-mem", "seed.json", "--dry-run"]
    said = fails("run", "./bank", "--test", "--lm", "script:canned.toml", *idle, cwd=place)
    for option in ("--ont", "--executor", "--no-l2", "--matts", "--load-mem", "--dry-run"):
        assert option in said
    assert "leave them out, or leave out --test" in said


def test_a_guide_takes_no_models_that_nobody_would_ask(place: Path) -> None:
    """No one judges it and nothing is learnt of it; `react` runs no code."""
    command = ("guide", "./bank", *FAST, "--lm", "script:guide.toml")
    assert "--judge-lm" in fails(*command, "--judge-lm", "a/b", cwd=place)
    assert "runs no code" in fails(*command, "--executor", "react", cwd=place)


def test_a_dry_run_says_what_it_does_not_write(place: Path) -> None:
    said = run(*LOOP, "--dry-run", "--save-mem", "mem.json", "--heads", "heads.txt", cwd=place).err
    assert "neither for --save-mem nor for --heads" in said
    assert not (place / "mem.json").exists() and not (place / "heads.txt").exists()


def test_an_endpoint_is_called_as_it_is_named(place: Path) -> None:
    """So that tasks which name another ontology can be put to it."""
    endpoint = ("--endpoint", "http://localhost:9/sparql", "--tasks", "kilns.json", "--dry-run", "--json")
    (place / "kilns.json").write_text('[{"id": "k", "question": "Which kilns are there?", "ontology": "kilns"}]')
    assert "named localhost; name it with --id" in fails("run", "./bank", *endpoint, cwd=place)
    assert run("run", "./bank", *endpoint, "--id", "kilns", cwd=place).json["tasks"][0]["task"] == "k"
    assert "can't be an ontology's id" in fails("run", "./bank", *endpoint, "--id", "The Kilns", cwd=place)


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_script_that_does_not_fit_the_made_up_runs_is_told_without_a_promise(
    place: Path, arguments: tuple[str, ...]
) -> None:
    """Nothing was kept, so there is nothing to go on from."""
    said = run("run", "./bank", "--test", "--lm", "script:turns.toml", *arguments, cwd=place, code=2).err
    assert "script_mismatch" in said and "Change the script" in said and "goes on" not in said


WRONG_ROLLOUTS = MATTS_SCRIPT.replace("[[task.agent]]\n", '[[task.agent]]\nexpects = ["What is not there"]\n')


@pytest.mark.slow
def test_each_rollout_that_failed_says_why(place: Path) -> None:
    """All three, on standard error and for programs; with how to go on once."""
    (place / "matts.toml").write_text(WRONG_ROLLOUTS)
    (place / "one.json").write_text(json.dumps([{"id": TASKS[0].id, "question": TASKS[0].question}]))
    command = ("run", "./bank", *FAST, "--tasks", "one.json", "--lm", "script:matts.toml", "--matts", "--json")
    shown = run(*command, cwd=place, code=2)
    for said in (shown.err, shown.json["error"]["message"]):
        assert [f".r{index} (script_mismatch)" in said for index in range(3)] == [True] * 3
        assert said.count("goes on from here") == 1


@pytest.mark.slow
def test_again_from_the_first_is_said_where_that_is_how_it_goes_on(place: Path) -> None:
    """With --again all tasks are run again, also those that were before the loop stopped."""
    (place / "turns.toml").write_text(SCRIPT.replace('["Use lt:focalHeight for heights"]', '["What is not there"]'))
    said = run(*LOOP, "--extract", "--again", cwd=place, code=2).err
    assert "goes on from here" not in said and "begins with the first task again" in said


def test_without_a_sandbox_nothing_is_begun(place: Path) -> None:
    """Its parts were never fetched here: what to do is said before a bank is made."""
    command = [word for word in LOOP if word != "--unsafe-local"]
    shown = run(*command, cwd=place, env={"RBANK_CACHE": str(place / "cache")}, code=2)
    assert "rbank-es doctor --warm" in shown.err and not (place / "bank").exists()


def test_an_agent_needs_something_to_ask(place: Path) -> None:
    assert "--ont" in fails("run", "./bank", "--task", "?", "--lm", "script:turns.toml", cwd=place)


@pytest.mark.slow
def test_a_model_that_departs_from_its_script_stops_the_loop_with_the_difference(place: Path) -> None:
    (place / "turns.toml").write_text(SCRIPT.replace('["Use lt:focalHeight for heights"]', '["What is not there"]'))
    shown = run(*LOOP, "--extract", "--json", cwd=place, code=2)
    assert "expects 'What is not there'" in shown.err and "goes on from here" in shown.err
    assert shown.json["ok"] is False and shown.json["error"]["type"] == "LoopStopped"
    run("verify", "./bank", cwd=place)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rise", "6/5"), "levels rise when 6 of the last 5"),
        (("--rise", "4"), "write how many of how many"),
        (("--rise", "x/y"), "write how many of how many"),
        (("--judge", "none"), "nobody judges"),
    ],
)
def test_a_curriculum_that_can_not_be_one_is_refused(place: Path, options: tuple[str, ...], words: str) -> None:
    tasks = [{"id": f"t{level}", "question": "?", "level": level} for level in (1, 2)]
    (place / "levels.json").write_text(json.dumps(tasks))
    chosen = ("--lm", "script:turns.toml", "--tasks", "levels.json", "--order", "curriculum", *options)
    shown = run("run", "./bank", *FAST, *chosen, cwd=place, code=None)
    assert shown.code == 2 and words in " ".join(shown.err.split()) and not (place / "bank").exists()
