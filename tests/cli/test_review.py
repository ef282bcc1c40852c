"""`review --verdicts`: which verdicts a person should check first, why, and the commands that settle them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.events import RunFinished, RunStarted
from tests.cli.misled import HEIGHT, SORTED, judged, learned, misled_bank, ran
from tests.cli_runner import fails, run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of."""
    folder = tmp_path_factory.mktemp("doubtful")
    misled_bank(folder / "logs" / "misled").close()
    return folder


def reviewed(place: Path, *options: str) -> Any:
    return run("review", "misled", *options, "--json", cwd=place).json


@pytest.mark.parametrize("settles", ["confirm", pytest.param("overrule", marks=pytest.mark.slow)])
def test_the_commands_it_prints_settle_a_verdict(settles: str, place: Path) -> None:
    [first] = reviewed(place, "--verdicts", "1")["rows"]
    run(*shlex.split(first[settles])[1:], cwd=place)
    after = reviewed(place, "--verdicts", "9")["rows"]
    assert "wrong" not in [each["run"] for each in after]
    record = next(each for each in after if each["run"] == "lucky")
    assert (record["checked"], record["wrong"]) == (1, int(settles == "overrule"))


def test_as_many_as_fit_into_the_minutes(made: Path) -> None:
    three = reviewed(made, "--verdicts", "9")["rows"]
    two = sum(each["minutes"] for each in three[:2])
    assert [each["run"] for each in reviewed(made, "--verdicts", "9", "--minutes", str(two))["rows"]] == [
        "wrong",
        "lucky",
    ]
    assert "give more" in run("review", "misled", "--verdicts", "9", "--minutes", "0.5", cwd=made).err


def test_a_bank_without_doubtful_verdicts_says_so(place: Path) -> None:
    run("init", "empty", cwd=place)
    assert "nothing to check" in run("review", "empty", "--verdicts", "3", cwd=place).err
    assert run("review", "empty", "--verdicts", "3", "--json", cwd=place).json["rows"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--verdicts", "0"), "--verdicts"),
        (("--verdicts", "many"), "'many' is not a whole number. See: rbank-es review --help"),
        (("--verdicts", "3", "--minutes", "soon"), "'soon' is not a number."),
        (("--verdicts", "1000000"), "--verdicts"),
        (("--minutes", "5"), "--verdicts N"),
        (("--verdicts", "3", "--minutes", "0"), "--minutes"),
        (("--verdicts", "3", "--minutes", "nan"), "--minutes"),
        (("--verdicts", "3", "--admit", "x"), "--admit"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_named(options: tuple[str, ...], words: str, made: Path) -> None:
    assert words in fails("review", "misled", *options, cwd=made)


@pytest.mark.slow
def test_erased_words_are_named_as_such_and_the_verdict_is_listed_all_the_same(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        bank.erase(item=HEIGHT.id)
        bank.erase(run="wrong")
    said = run("review", "misled", "--verdicts", "1", cwd=place).out
    assert "1. wrong: success" in said and f"{HEIGHT.id}  [erased]" in said
    assert HEIGHT.title not in said and "wrong looks like" not in said


def test_words_of_a_bank_neither_reach_the_terminal_raw_nor_become_part_of_a_command(place: Path) -> None:
    hostile, escape = "--dry-run; rm -rf ~", "\x1b[2J\u202e"
    with Bank.open(place / "logs" / "misled") as bank:
        events = [replace(each, task=escape) if hasattr(each, "task") else each for each in ran(hostile)]
        verdict = replace(judged(hostile, "success"), judge=escape, reason=escape, confidence=0.2)
        bank.append([*events, verdict])
        learned(bank, replace(SORTED, id="beef", title="x", content="quite other words"), (hostile, "success"))
    said = run("review", "misled", "--verdicts", "9", cwd=place).out
    assert "\x1b" not in said and "\u202e" not in said
    [found] = [each for each in reviewed(place, "--verdicts", "9")["rows"] if each["run"] == hostile]
    assert shlex.split(found["overrule"])[-3:] == ["--", "misled", hostile]
    run(*shlex.split(found["overrule"])[1:], cwd=place)
    assert hostile not in [each["run"] for each in reviewed(place, "--verdicts", "9")["rows"]]


@pytest.mark.slow
def test_the_name_of_a_judge_breaks_no_line(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        verdict = replace(judged("odd", "success"), judge_version="1\n\n2. wrong: success, says ann (a person)")
        bank.append([*ran("odd"), verdict])
        learned(bank, replace(SORTED, id="beef", title="x", content="quite other words"), ("odd", "success"))
    said = run("review", "misled", "--verdicts", "9", cwd=place).out
    assert "2. wrong: success, says ann" in said
    assert not any(line.startswith("2. wrong: success, says ann") for line in said.splitlines())


def test_people_read_what_settles_a_run_that_nobody_judged(tmp_path: Path) -> None:
    """A model for a run without a source."""
    with Bank.create(tmp_path / "logs" / "plain") as bank:
        bank.append([RunStarted(run="r", task="Which?"), RunFinished(run="r", outcome="submitted", answer="That.")])
    said = run("review", "plain", cwd=tmp_path).out
    assert re.search(r"to settle the first:\n  .*judge run plain r --judge-lm MODEL\n", said)
