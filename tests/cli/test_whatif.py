"""`whatif`: what would differ, for people and programs; the bank that it writes; and what it refuses."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.answers import Bounds, Moment
from rbank_es.errors import BadInput, BadPolicy
from rbank_es.law import active
from rbank_es.policies import Bm25V2
from tests.answers.asked import served
from tests.cli.misled import HEIGHT, TWIN, misled_bank
from tests.cli_runner import SAMPLE, fails, run

WRONG = "lights-07"
"""The beginning of the run of the sample that was judged wrongly, and overruled later."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("whatif")
    misled_bank(folder / "logs" / "misled").close()
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    return folder


def supposed(place: Path, *line: str) -> Any:
    return run("whatif", *line, "--json", cwd=place).json


@pytest.mark.parametrize("force", [False, True])
def test_of_two_that_write_one_file_the_slower_is_refused_and_the_file_stays(place: Path, force: bool) -> None:
    """With `--force` the last one wins; either way the file is whole."""
    into, seen = place / "there.sqlite", list[bytes]()

    def meanwhile(done: int, total: int) -> None:
        if not seen:
            with Bank.open(place / "logs" / "misled") as bank:
                bank.whatif(without=[HEIGHT.id], into=into)
            seen.append(into.read_bytes())

    with Bank.open(place / "logs" / "misled") as bank:
        if force:
            bank.whatif(verdicts={"wrong": "failure"}, into=into, force=True, progress=meanwhile)
        else:
            with pytest.raises(BadInput, match=r"there\.sqlite exists; choose another file"):
                bank.whatif(verdicts={"wrong": "failure"}, into=into, progress=meanwhile)
    assert (into.read_bytes() == seen[0]) is not force
    with closing(sqlite3.connect(into)) as whole:
        assert whole.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {path.name for path in place.glob("there*")} == {"there.sqlite"}


@pytest.mark.slow
def test_what_is_injected_is_packed_again_as_the_run_would_get_it(made: Path) -> None:
    found = supposed(made, "sample", "--verdict", f"{WRONG}=failure")
    [prompt] = found["prompts"]
    with Bank.open(made / "logs" / "sample") as bank:
        built = next(bank.events(run=prompt["run"], types=("context_built",), resolve=True))
        assert prompt["before"] in built.texts and prompt["after"] not in built.texts  # type: ignore[attr-defined]
    assert "bfd1fd5367a2" in prompt["before"] and "bfd1fd5367a2" not in prompt["after"]


@pytest.mark.slow
def test_the_question_gives_what_the_command_prints(made: Path) -> None:
    found = supposed(made, "sample", "--verdict", f"{WRONG}=failure", "--policy", "retrieval.k_success=2")
    given: dict[str, Any] = {"verdicts": {WRONG: "failure"}, "policies": {"retrieval": {"k_success": 2}}}
    words = [f"{name}={json.dumps(value)}" for name, value in given.items()]
    assert run("ask", "sample", "whatif", *words, "--json", cwd=made).json == found
    with Bank.open(made / "logs" / "sample") as bank:
        assert json.loads(bank.whatif(**given).json()) == found
        whole = bank.whatif(**given)
        assert whole == bank.whatif(**given) and whole.prompts and whole.retrievals
        asked = {name: json.dumps(value) for name, value in given.items()}
        assert served(bank, "whatif", asked)[1]["needs"] == found["needs"]
        cut = bank.whatif(**given, chars=9)
        assert {len(each.after or "") for each in cut.prompts} <= {0, 9} and len(cut.prompts) == len(whole.prompts)
        part = bank.at(300).whatif(policies=given["policies"], since=100)
        assert (part.since_seq, part.position) == (100, 300) and part.searched < whole.searched
        unshown = Moment(bank, bank.position, Bounds(prompts=False)).whatif(**given)
        assert {(each.before, each.after) for each in unshown.prompts} == {(None, None)}
        with pytest.raises(BadInput, match="until is position 300, later than 200: ask about a later point"):
            bank.at(200).whatif(**given, until=300)


def test_a_setting_of_the_first_recorded_policy_is_supposed_by_its_name_alone() -> None:
    with Bank.create("memory:", policies=[Bm25V2().choice]) as bank:
        assert not bank.whatif(policies={"retrieval": {"pool": 20}}).differs
        with pytest.raises(BadPolicy, match="no setting 'pol'"):
            bank.whatif(policies={"retrieval": {"pol": 20}})


def test_the_bank_as_it_would_be_is_written_for_sql(place: Path) -> None:
    run("whatif", "misled", "--verdict", "wrong=failure", "--into", "there.sqlite", cwd=place)
    with closing(sqlite3.connect(place / "there.sqlite")) as there:
        states = dict(there.execute("SELECT id, state FROM items"))
        failed = {run for (run,) in there.execute("SELECT run FROM runs WHERE verdict = 'failure'")}
    assert states[TWIN.id] == "active" and HEIGHT.id not in states and "wrong" in failed
    with Bank.open(place / "logs" / "misled") as bank:
        bank.overrule("wrong", "failure", reason="tried")
        assert {id for id, state in states.items() if state == "active"} == set(active(bank.state()))
    assert "that is a file; one that `--into` wrote is for SQLite tools" in fails("log", "./there.sqlite", cwd=place)


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_erased_texts_are_counted_as_unknowable(place: Path) -> None:
    run("erase", "sample", "--item", "202b787bab87", "--reason", "x", "--yes", cwd=place)
    found = supposed(place, "sample", "--policy", "retrieval.k_success=2")
    with Bank.open(place / "logs" / "sample") as bank:
        recorded = sum(1 for _ in bank.events(types={"memories_retrieved"}))
    assert found["unknowable"]["retrievals"] and found["unknowable"]["prompts"]
    assert found["unknowable"]["retrievals"] + found["searched"] == recorded
