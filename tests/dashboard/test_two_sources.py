"""The two sources of the page: an exported file answers as a served bank does, at every position."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.dashboard.answers import answer
from rbank_es.dashboard.exported_page import ExportOptions, page_data
from rbank_es.errors import BadInput, NotInBank
from tests.cli_runner import SAMPLE
from tests.dashboard.node import MODULES, node

ASK = Path(__file__).parent / "ask_file_source.mjs"

Question = tuple[str, dict[str, str]]


def asked_of_the_file(bank: Bank, questions: Sequence[Question], folder: Path) -> list[Any]:
    """The answers of an exported page's source."""
    with bank.as_of() as view:
        data = page_data(bank, view, ExportOptions())
    (folder / "data.json").write_bytes(msgspec.json.encode(data))
    given = [(name, {key: int(value) if key == "at" else value for key, value in of.items()}) for name, of in questions]
    (folder / "questions.json").write_text(json.dumps(given))
    command = [node(), str(ASK), str(MODULES), str(folder / "data.json"), str(folder / "questions.json")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return list(json.loads(done.stdout))


def served(bank: Bank, question: Question) -> Any:
    """The answer of a served bank; None where it is refused."""
    name, given = question
    try:
        return msgspec.json.decode(msgspec.json.encode(answer(bank, name, given)))
    except (NotInBank, BadInput):
        return None


def questions_at(bank: Bank, position: int) -> Iterator[Question]:
    at = {"at": str(position)}
    yield "bank", at
    yield "overview", at
    yield "runs", at
    yield "items", at
    with bank.as_of(position) as view:
        runs, items = [row["run"] for row in view.rows("runs")], [row["id"] for row in view.rows("items")]
    for run in runs:
        yield "run", at | {"id": run}
    for item in items:
        yield "item", at | {"id": item}


def compare(bank: Bank, questions: Sequence[Question], folder: Path) -> None:
    for question, found in zip(questions, asked_of_the_file(bank, questions, folder), strict=True):
        wanted = served(bank, question)
        if wanted is None:
            assert "error" in found, question
        else:
            assert not list(differing(wanted, found)), question


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    place = tmp_path_factory.mktemp("sample") / "sample"
    shutil.copytree(SAMPLE, place)
    with Bank.open(place) as bank:
        bank.project()
        yield bank


def test_an_exported_page_answers_as_a_served_one_at_every_turn(sample: Bank, tmp_path: Path) -> None:
    step = 60
    questions = [each for at in range(0, sample.position + 1, step) for each in questions_at(sample, at)]
    compare(sample, questions, tmp_path)


def differing(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ, as paths with both values."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            yield from differing(wanted.get(name, "(missing)"), found.get(name, "(missing)"), f"{path}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for i, pair in enumerate(zip(wanted, found, strict=True)):
            yield from differing(*pair, f"{path}[{i}]")
    elif wanted != found:
        yield f"{path}: served {str(wanted)[:200]}, exported {str(found)[:200]}"
