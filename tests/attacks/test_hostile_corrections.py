"""Hostile files of verdicts, and hostile texts in the reports of corrections."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from rbank_es import Bank, limits
from rbank_es.cli import main
from rbank_es.events import MemoriesAdmitted, MemoriesRestored, MemoriesRetracted
from rbank_es.events.items import Item
from tests.attacks.hostile_text import TEXTS, steering
from tests.cli.misled import judged, learned, misled_bank, ran
from tests.cli_runner import on_terminal
from tests.effort import one_in

ROW = '{"run": "wrong", "verdict": "failure", "reason": "x"}'
FILES = {  # what is no text, or no JSON, is tried on all who read files: see `test_hostile_files.py`
    "blank": ("v.csv", "\n\n"),
    "headers-alone": ("v.csv", "run,verdict,reason\n"),
    "no-form": ("verdicts", ROW),
    "other-form": ("v.xlsx", ROW),
    "array-row": ("v.jsonl", '["wrong", "failure"]'),
    "number-run": ("v.jsonl", '{"run": 7, "verdict": "failure"}'),
    "no-run": ("v.jsonl", '{"verdict": "failure"}'),
    "blank-run": ("v.jsonl", '{"run": "  ", "verdict": "failure"}'),
    "no-verdict": ("v.csv", "run,verdict\nwrong,\n"),
    "other-verdict": ("v.csv", "run,verdict\nwrong,fail\n"),
    "boolean-verdict": ("v.jsonl", '{"run": "wrong", "verdict": false}'),
    "no-reason": ("v.csv", "run,verdict\nwrong,failure\n"),
    "unknown-field": ("v.jsonl", '{"run": "wrong", "verdict": "failure", "verdcit": "success"}'),
    "unknown-run": ("v.csv", "run,verdict,reason\nwrong,failure,x\nwrnog,failure,x\n"),
    "two-verdicts": ("v.csv", "run,verdict,reason\nwrong,failure,x\nwrong,success,x\n"),
    "too-many-cells": ("v.csv", "run,verdict,reason\nwrong,failure,x,y,z\n"),
    "open-quote": ("v.csv", 'run,verdict,reason\nwrong,failure,"x\n'),
    "nul": ("v.csv", "run,verdict,reason\nwr\0ong,failure,x\n"),
    "huge-cell": ("v.csv", "run,verdict,reason\nwrong,failure," + "x" * 200_000 + "\n"),
    "toml-scalar": ("v.toml", "ruling = 7\n"),
    "toml-other-table": ("v.toml", '[[verdicts]]\nrun = "wrong"\n'),
    "toml-broken": ("v.toml", "[[ruling]\n"),
    "toml-date": ("v.toml", '[[ruling]]\nrun = "wrong"\nverdict = 2026-01-01\n'),
    "too-many": ("v.jsonl", (ROW + "\n") * (limits.RULINGS + 1)),
    "option-like-run": ("v.csv", "run,verdict,reason\n--success,failure,x\n"),
    "long-name-run": ("v.csv", "run,verdict,reason\n" + "r" * 5_000 + ",failure,x\n"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rulings")
    misled_bank(folder / "misled").close()
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_of_verdicts_is_refused_in_one_line_and_records_nothing(
    name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, held = FILES[name]
    (tmp_path / file).write_bytes(held if isinstance(held, bytes) else held.encode())
    with Bank.open(place / "misled") as bank:
        before = bank.position
    assert main(["overrule", str(place / "misled"), "--from", str(tmp_path / file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("rbank-es: ") and said.count("\n") == 1 and len(said) < 1_000
    with Bank.open(place / "misled") as bank:
        assert bank.position == before


def hostile(folder: Path, text: str) -> tuple[str, str, Item]:
    """Make a bank whose run, task, verdict and item have a hostile text; return its place, its run and its item."""
    run = f"run {text}"[:200]
    item = Item.make(f"A title {text}"[:110], f"The content {text}", "success")
    twin = Item.make(f"A titles {text}"[:110], f"The content {text}!", "success")
    with Bank.create(folder / "bank") as bank:
        for name, each in ((run, item), (f"{run} too", twin)):
            bank.append([*ran(name), judged(name, "success")])
            learned(bank, each, (name, "success"))
        bank.append([*ran("later", item.id), judged("later", "success")])
        learned(bank, Item.make(f"Another {text}"[:110], "Some words of its own.", "success"), ("later", "success"))
    return str(folder / "bank"), run, item


@pytest.mark.slow
@pytest.mark.parametrize("text", one_in(5, TEXTS.values()), ids=TEXTS)
def test_no_hostile_text_steers_the_report_of_a_correction(
    text: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    bank, run, item = hostile(tmp_path, text)
    lines = [
        ["overrule", bank, run, "--failure", "--reason", text, "--by", text[:100], "--influence"],
        ["show", bank, f"run:{run}"],
        ["show", bank, f"item:{item.id}"],
        ["restore", bank, item.id, "--because", text],
        ["reject", bank, item.id, "--because", text],
        ["review", bank],
        ["overrule", bank, f"{run} unknown", "--failure", "--reason", text],
    ]
    for line in lines:
        main(line)
        printed = capsysbinary.readouterr()
        assert not steering((printed.out + printed.err).decode()), line
    main([*lines[0][:2], run, "--success", "--reason", "back", "--json"])
    assert json.loads(capsysbinary.readouterr().out)["runs"][0]["run"] == run


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_report_fits_every_terminal(columns: int, tmp_path: Path) -> None:
    misled_bank(tmp_path / "misled").close()
    line = ("overrule", "./misled", "wrong", "--failure", "--reason", "The light.", "--dry-run")
    printed = on_terminal(*line, cwd=tmp_path, columns=columns).out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert "left the bank" in plain
    assert all(len(shown) <= columns for shown in plain.splitlines() if " -m rbank_es " not in shown)


@pytest.mark.slow
def test_thousands_of_acts_on_one_item_cost_what_they_are() -> None:
    """A log from a stranger goes back and forth; each act copied all before it, in the fold and in the read models."""

    def took(acts: int) -> float:
        with Bank.create("memory:") as bank:
            item = bank.remember("Ask for its classes", "List the classes first.").item
            kinds = (
                MemoriesRetracted(ids=(item,), how="withdrawn"),
                MemoriesRestored(ids=(item,)),
                MemoriesAdmitted(ids=(item,)),
                MemoriesRetracted(ids=(item,), how="rejected"),
            )
            for start in range(0, acts, 1_000):
                bank.append([kinds[at % 4] for at in range(start, start + 1_000)])
            begin = time.process_time()
            state = bank.state()
            bank.project()
            spent = time.process_time() - begin
            assert state.items[item].state == "rejected" and len(list(state.records[item].acts())) == acts
            with bank.live() as view:
                assert [row["state"] for row in view.rows("items")] == ["rejected"]
            return spent

    # Four times as many would have taken sixteen times as long; the machine may be busy.
    assert took(16_000) <= 8 * took(4_000)
