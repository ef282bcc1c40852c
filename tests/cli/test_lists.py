"""`runs` and `items`: what they list equals an independent fold of the log; filters, orders, forms; why nothing is."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.cli import main
from rbank_es.events import Event, NoteLogged, RunFinished, RunStarted
from rbank_es.events.items import Item
from tests.cli_runner import SAMPLE, fails, run
from tests.tools.memories import remember

Printed = pytest.CaptureFixture[bytes]


def listed(capsys: Printed, *line: str) -> list[dict[str, Any]]:
    """The rows that a list prints as JSON."""
    assert main([*line, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows: list[dict[str, Any]] = document[line[0]]
    assert document["total"] >= len(rows)
    return rows


@pytest.mark.slow
def test_filters_and_orders_of_runs(capsysbinary: Printed) -> None:
    """Each filter keeps just the runs that pass it; together they keep those that pass all."""
    every = listed(capsysbinary, "runs", str(SAMPLE))
    middle = sorted(row["started_at"] for row in every)[15]
    used = listed(capsysbinary, "items", str(SAMPLE), "--sort", "-uses", "--limit", "1")[0]
    cases = {
        ("--verdict", "failure"): lambda row: row["verdict"] == "failure",
        ("--verdict", "none"): lambda row: row["verdict"] is None,
        ("--outcome", "submitted"): lambda row: row["outcome"] == "submitted",
        ("--domain", "lights"): lambda row: row["ontology"] == "lights",
        ("--task", "LIGHTHOUSE"): lambda row: "lighthouse" in row["task"].lower(),
        ("--model", "sample_script"): lambda row: True,
        ("--executor", "rlm"): lambda row: row["executor"] == "rlm",
        ("--since", middle[:19]): lambda row: row["started_at"] >= middle[:19],
        ("--until", middle[:19]): lambda row: row["started_at"] < middle[:19],
        ("--verdict", "failure", "--since", middle[:19]): lambda row: (
            row["verdict"] == "failure" and row["started_at"] >= middle[:19]
        ),
    }
    for options, keeps in cases.items():
        found = listed(capsysbinary, "runs", str(SAMPLE), *options)
        assert found == [row for row in every if keeps(row)], options
    assert len(listed(capsysbinary, "runs", str(SAMPLE), "--item", used["id"][:6])) == used["uses"]
    cheapest = listed(capsysbinary, "runs", str(SAMPLE), "--sort", "tokens_in", "--limit", "3")
    assert [row["tokens_in"] for row in cheapest] == sorted(row["tokens_in"] for row in every)[:3]


def test_an_error_that_ended_runs_is_told_wherever_runs_are(tmp_path: Path) -> None:
    """First of a run; in its row; by its reason, with the number of runs, where a person looks what is wrong."""
    with Bank.create(tmp_path / "b") as bank:
        for name, port in (("r1", 8001), ("r2", 8002)):
            error = f"ConnectionError: port {port} refused\nby the model \x1b[31m"
            ended = RunFinished(run=name, outcome="failed", error_code="unreachable", error=error)
            bank.append([RunStarted(run=name, task="t"), ended])
        bank.append([RunStarted(run="r3", task="t"), RunFinished(run="r3", outcome="forced_at_limit", bound="calls")])
    lines = run("show", "./b", "r2", cwd=tmp_path).out.split("\n")
    assert lines[:3] == ["t", "it ended in an error: unreachable", "ConnectionError: port 8002 refused"]
    assert run("show", "./b", "r3", cwd=tmp_path).out.split("\n")[:3] == ["t", "it was stopped at a limit: calls", ""]
    reason = "unreachable: ConnectionError: port 8002 refused"
    listed = run("runs", "./b", cwd=tmp_path).out
    assert reason in listed and "calls" not in listed
    for command in ("review", "health"):
        said = run(command, "./b", cwd=tmp_path).out
        assert "runs that ended in an error: 2" in said and reason in said and "r2" in said and "\x1b" not in said
        (found,) = run(command, "./b", "--json", cwd=tmp_path).json["failed_runs"]
        assert found == {"reason": reason, "runs": 2, "run": "r2", "task": "t"}


def test_filters_of_items(capsysbinary: Printed) -> None:
    every = listed(capsysbinary, "items", str(SAMPLE))
    drawn = next(row for row in every if row["runs"])
    tagged = next(row for row in every if row["tags"])
    cases = {
        ("--state", "unsupported"): lambda row: row["state"] == "unsupported",
        ("--polarity", "failure"): lambda row: row["polarity"] == "failure",
        ("--src", "seed"): lambda row: row["src"] == "seed",
        ("--domain", "lights"): lambda row: "lights" in row["domains"],
        ("--tag", tagged["tags"][0]): lambda row: tagged["tags"][0] in row["tags"],
        ("--run", drawn["runs"][0]): lambda row: drawn["runs"][0] in row["runs"],
        ("--q", "QUERY lights"): lambda row: (
            "query" in (text := (row["id"] + row["title"] + row["desc"] + row["content"]).lower()) and "lights" in text
        ),
        ("--where", "win_rate_low>0.3"): lambda row: (row["win_rate_low"] or 0) > 0.3,
        ("--where", f"runs~{drawn['runs'][0]}"): lambda row: drawn["runs"][0] in row["runs"],
        ("--since", "300"): lambda row: row["born_seq"] > 300,
        ("--until", "300"): lambda row: row["born_seq"] <= 300,
    }
    for options, keeps in cases.items():
        assert listed(capsysbinary, "items", str(SAMPLE), *options) == [row for row in every if keeps(row)], options


def test_csv_has_the_values_of_the_json(capsysbinary: Printed) -> None:
    for command in ("runs", "items"):
        rows = listed(capsysbinary, command, str(SAMPLE))
        assert main([command, str(SAMPLE), "--csv"]) == 0
        cells = list(csv.DictReader(io.StringIO(capsysbinary.readouterr().out.decode())))
        assert len(cells) == len(rows) and cells[0].keys() == rows[0].keys()
        for row, cell in zip(rows, cells, strict=True):
            for name in ("run", "outcome", "id", "title", "uses", "tokens_in", "runs"):
                if name in row:
                    value = "; ".join(row[name]) if isinstance(row[name], list) else str(row[name])
                    assert cell[name] == value


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (["runs", "--domain", "nosuch"], "none of the 31 runs has --domain nosuch; there are: lights"),
        (["runs", "--outcome", "failed", "--verdict", "success"], "passes all filters at once"),
        (["items", "--tag", "nosuch"], "none of the 46 items has --tag nosuch"),
        (["search", "xyzzy"], "active items has a word of the query"),
        (["search", "tower", "--role", "nosuch"], "active items passes the filters"),
        (["search", "tower", "--level", "1"], "gives items of every level: policy sample --set retrieval.levels=up_to"),
        (["log", "--type", "note_logged", "--since", "590"], "no event of type note_logged from position 591 to 609"),
    ],
)
def test_nothing_says_why(line: list[str], reason: str, tmp_path: Path) -> None:
    shown = run(line[0], SAMPLE, *line[1:], cwd=tmp_path)
    assert reason in shown.err


def test_what_a_list_can_not_do_is_refused(tmp_path: Path) -> None:
    assert "did you mean 'cost_usd'?" in fails("runs", SAMPLE, "--sort", "cost", cwd=tmp_path)
    assert "exclude each other" in fails("runs", SAMPLE, "--json", "--csv", cwd=tmp_path)
    assert "is not an ISO time" in fails("runs", SAMPLE, "--since", "yesterday", cwd=tmp_path)


# ---------------------------------------------------------------- ids by their beginning


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A bank with the runs ab-1, ab-12 and ba."""
    events: list[Event] = [RunStarted(run=name, task=name) for name in ("ab-1", "ab-12", "ba")]
    with Bank.create(tmp_path / "b") as bank:
        bank.append([*events, NoteLogged(run="ba", note={"a": 1})])
    return tmp_path


def printed(capsys: Printed, *line: str) -> Any:
    """The JSON document that a command prints."""
    assert main([*line, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_an_id_is_found_by_any_unambiguous_beginning(three: Path, capsysbinary: Printed) -> None:
    """Wherever something is only read; a whole id counts even where another begins with it."""
    bank = str(three / "b")
    before = {"ba": 4, "ab-12": 3, "ab-1": 2}
    for given, name in (("b", "ba"), ("ab-12", "ab-12"), ("ab-1", "ab-1"), ("ba", "ba")):
        assert printed(capsysbinary, "show", bank, given)["run"]["run"] == name
        assert printed(capsysbinary, "replay", f"{bank}@{given}")["position"] == before[name]
        assert main(["log", bank, "--run", given, "--type", "run_started"]) == 0
        assert json.loads(capsysbinary.readouterr().out)["run"] == name


def test_what_writes_takes_whole_ids(three: Path, capsysbinary: Printed) -> None:
    bank = str(three / "b")
    for line in (["judge", "run", bank, "b", "--judge", "checks"], ["erase", bank, "--run", "b", "--yes"]):
        assert main(line) == 2 and "write the whole id" in capsysbinary.readouterr().err.decode()
    judged = printed(capsysbinary, "judge", "run", bank, "ab-1", "--judge", "checks", "--dry-run")
    assert [each["run"] for each in (*judged["runs"], *judged["unjudged"])] == ["ab-1"]
    assert {
        place["run"] for place in printed(capsysbinary, "erase", bank, "--run", "ba", "--yes")["erasure"]["places"]
    } == {"ba"}


def test_an_ambiguous_or_unknown_id_names_those_that_it_could_be(three: Path, capsysbinary: Printed) -> None:
    bank = str(three / "b")

    def refused(*line: str) -> str:
        assert main(line) == 2
        return capsysbinary.readouterr().err.decode()

    for words in ("show B ab", "log B --run ab", "rerun B ab"):
        line = words.replace("B", bank).split(" ")
        message = refused(*line)
        assert "'ab' begins several ids" in message and "ab-1" in message and "ab-12" in message
    assert "ab-1, ab-12" in refused("log", f"{bank}@ab")
    for line in (["show", bank, "ab-21"], ["log", bank, "--run", "ab-21"], ["judge", "run", bank, "ab-21"]):
        assert "did you mean ab-1 or ab-12?" in refused(*line)


def test_an_event_is_shown_by_the_beginning_of_its_id(capsysbinary: Printed) -> None:
    with Bank.open(SAMPLE) as bank:
        ids = [event.id for event in bank.events()]
    whole = next(each for each in ids if sum(other.startswith(each[:20]) for other in ids) == 1)
    assert main(["show", str(SAMPLE), whole[:20], "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["id"] == whole


def test_an_id_like_no_other_gets_no_advice(three: Path, tmp_path: Path, capsysbinary: Printed) -> None:
    """That a bank has no runs yet is said only of one that has none."""
    Bank.create(tmp_path / "empty").close()
    for name, is_said in (("b", False), ("empty", True)):
        assert main(["judge", "run", str(tmp_path / name), "zzz"]) == 2
        assert ("has none yet" in capsysbinary.readouterr().err.decode()) == is_said


@pytest.mark.slow
def test_import_into_no_bank_advises_create(tmp_path: Path) -> None:
    (tmp_path / "items.json").write_text("[]")
    (tmp_path / "events.jsonl").write_text('{"type": "note_logged"}')
    for line in (["import", "./none", "items.json"], ["append", "./none", "events.jsonl"]):
        assert "Add --create to make it" in fails(*line, cwd=tmp_path)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": "run_finished", "run": "r", "outcome": "ok"}, "one of: 'failed', 'forced_at_limit', 'submitted'"),
        (
            {"type": "memories_extracted", "kind": "manual", "candidates": [{"title": "t", "src": "x"}]},
            "'success' (at $.heads[0].src)",
        ),
    ],
)
def test_an_enumeration_names_its_values(fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    run("init", "./b", cwd=tmp_path)
    assert reason in fails("append", "./b", cwd=tmp_path, stdin=json.dumps(fields))


def test_eight_values_that_there_are_are_named(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "b") as bank:
        remember(bank, *(Item.make(f"Item {n}", f"Word {n}.", domain=f"d{n:02}") for n in range(17)))
    named = run("items", "./b", "--domain", "nosuch", cwd=tmp_path).err.partition("there are: ")[2]
    assert named.strip() == f"{', '.join(f'd{n:02}' for n in range(8))}, …"
