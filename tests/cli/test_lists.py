"""`runs` and `items`: what they list equals an independent fold of the log; filters, orders, forms; why nothing is."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.cli import main
from tests.cli_runner import SAMPLE

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


# ---------------------------------------------------------------- ids by their beginning


def test_an_event_is_shown_by_the_beginning_of_its_id(capsysbinary: Printed) -> None:
    with Bank.open(SAMPLE) as bank:
        ids = [event.id for event in bank.events()]
    whole = next(each for each in ids if sum(other.startswith(each[:20]) for other in ids) == 1)
    assert main(["show", str(SAMPLE), whole[:20], "--json"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["id"] == whole
