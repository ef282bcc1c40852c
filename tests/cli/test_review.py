"""`review --verdicts`: which verdicts a person should check first, why, and the commands that settle them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from tests.cli.misled import SORTED, judged, learned, misled_bank, ran
from tests.cli_runner import run


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
