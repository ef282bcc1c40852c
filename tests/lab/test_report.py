"""Reports of experiments: numbers compared with plain Python over the rows, checks that find any change."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import msgspec
import pytest
import scipy.stats

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import RunJudged
from rbank_es.lab.experiment_comparison import compare
from rbank_es.lab.experiment_folder import ExperimentData, FolderHead, read_experiment
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.experiment_results import results_of
from rbank_es.lab.guide_worth import GuideWorth
from rbank_es.lab.report import CONDITIONS, PAGE, ROWS, SHEET, report_files, write_report
from rbank_es.lab.report_check import ReportCheck, check_report
from rbank_es.lab.report_page import page_of
from rbank_es.lab.tamper_evidence import fork_point
from rbank_es.lab.trial_place import DEFINITION, SUITE, TrialPlace
from rbank_es.limits import experiment_limits
from tests.cli_runner import ROOT, run
from tests.lab.folders import pair, record_trial, suite_of, written
from tests.lab.trials import materials, ran
from tests.lab.trials import pair as real_pair
from tests.loop.loops import source
from tests.sandbox.sandboxes import require_dspy


@pytest.fixture(scope="module")
def data(kept: Path) -> ExperimentData:
    return read_experiment(kept)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ROWS).read_text().splitlines()]


def conditions(folder: Path) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads((folder / CONDITIONS).read_bytes())["conditions"]}


# ---------------------------------------------------------------- numbers


def test_the_page_says_first_that_no_model_ran(kept: Path) -> None:
    page = (kept / PAGE).read_text()
    assert "in 24 of 24 runs a script stood in for the model" in page and "too few to say" in page
    assert page.index("SCRIPTED") < page.index("<h1>")
    assert "rbank-es show ./banks/with/o2-r0 " in page and "<script" not in page


def test_each_condition_has_pages_and_a_bank_too_long_for_one_has_the_command(
    data: ExperimentData, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = page_of(results_of(data), data.rows)
    assert whole.count('href="pages/with/') == whole.count('href="pages/without/') == 12 and "too long" not in whole
    assert 'href="pages/with/o0-r0.html#/run/t' in whole
    monkeypatch.setattr(experiment_limits, "REPORT_PAGE_EVENTS", 3 * int(data.trials[0].head.partition(":")[0]))
    short = page_of(results_of(data), data.rows)
    assert 'href="pages/with/' in short and 'href="pages/without/' in short
    assert "The banks of 4 trials are too long" in short
    assert "<code>rbank-es dashboard ./banks/with/o2-r0 -o with-o2-r0.html</code>" in short


def test_rows_load_as_a_table_one_column_for_each_fact(kept: Path) -> None:
    """By json and csv alone: each line has the same keys in the same order, each cell is that of its line."""
    rows = lines(kept)
    names = [*rows[0]]
    assert all([*row] == names for row in rows) and len(rows) == 24
    with (kept / SHEET).open(newline="") as file:
        sheet = [*csv.DictReader(file)]
    for row, cells in zip(rows, sheet, strict=True):
        assert [*cells] == names
        for name, value in row.items():
            if value is None:
                assert cells[name] == ""
            elif isinstance(value, bool):
                assert cells[name] == ("yes" if value else "no")
            elif isinstance(value, int | float):
                assert float(cells[name]) == value
            elif isinstance(value, str):
                assert cells[name] == value


def test_the_documented_line_loads_the_rows_into_pandas(kept: Path) -> None:
    """Only where pandas is installed, which it needn't be."""
    pandas = pytest.importorskip("pandas")
    [line] = re.findall(r"^rows = (pandas\.read_json\(.*\))$", (ROOT / "docs" / "experiments.md").read_text(), re.M)
    table = eval(line.replace("experiments/heights", str(kept)), {"pandas": pandas})
    assert [*table.columns] == [*lines(kept)[0]] and len(table) == 24
    assert [*table["task_id"]] == [row["task_id"] for row in lines(kept)]


def test_the_order_of_rows_and_trials_changes_no_byte(data: ExperimentData) -> None:
    wanted = report_files(data)
    for seed in range(3):
        rows, order = [*data.rows], Random(seed)
        order.shuffle(rows)
        assert report_files(msgspec.structs.replace(data, rows=tuple(rows))) == wanted


@pytest.mark.slow
def test_a_report_that_is_cut_off_anywhere_and_made_again_has_the_same_bytes(
    data: ExperimentData, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in another folder: neither the time nor the place is in it."""
    from rbank_es.lab import report

    wanted = report_files(data)
    really = report.write_replacing
    for cut in (0, 1, 3):
        shutil.rmtree(folder / "results")
        left = [cut]

        def once(path: Any, pieces: Any, left: list[int] = left) -> Any:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return really(path, pieces)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(report, "write_replacing", once)
            write_report(data, folder)
        write_report(read_experiment(folder), folder)
        assert {name: (folder / name).read_bytes() for name in wanted} == wanted


# ---------------------------------------------------------------- left out


@pytest.mark.slow
def test_trials_that_are_missing_or_unfinished_and_runs_that_break_a_gate_are_named_and_in_no_number(
    tmp_path: Path,
) -> None:
    experiment, suite = pair(4), suite_of()
    folder = written(tmp_path / "pair", experiment, suite)
    planned = trials(experiment)
    missing, unfinished, gateless = (TrialPlace(folder, planned[at]) for at in (1, 2, 5))
    shutil.rmtree(missing.bank)
    (folder / "banks" / "with" / "o9-r9").mkdir()
    for place in (unfinished, gateless):
        shutil.rmtree(place.bank)
        with Bank.open(folder / "banks" / "base") as base, base.fork(place.bank, fork_point(base)) as bank:
            changes = {"commit": "c" * 40} | ({"config_digest": None} if place == gateless else {})
            record_trial(folder, base, bank, place.trial, experiment, suite, lambda *_: True, **changes)
            if place == unfinished:
                bank.fork(folder / "cut", "HEAD~1").close()
    shutil.rmtree(unfinished.bank)
    (folder / "cut").rename(unfinished.bank)
    found = results_of(read_experiment(folder))
    assert [(each.place, each.state) for each in found.incomplete] == [
        ("banks/with/o0-r0", "missing"),
        ("banks/without/o1-r0", "unfinished"),
    ]
    assert found.unplanned == ("banks/with/o9-r9",)
    assert {each.place for each in found.left_out} == {"banks/with/o2-r0"} and len(found.left_out) == 4
    with_memory = found.named("with")
    assert with_memory is not None and with_memory.gates == {"reproducibility": 4}
    assert with_memory.metrics["success"].units.keys() == {1, 3}
    # A pair needs both sides.
    assert {each.result.left_out for each in found.contrasts} == {(0, 1, 2)}
    page = report_files(read_experiment(folder))[PAGE].decode()
    for said in ("banks/with/o0-r0", "banks/without/o1-r0", "unfinished", "reproducibility"):
        assert said in page


# ---------------------------------------------------------------- refused


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no folder of an experiment"):
        read_experiment(tmp_path)
    with pytest.raises(BadInput, match="is no folder of an experiment"):
        check_report(tmp_path)


# ---------------------------------------------------------------- check


LOG = "banks/with/o1-r0"


def changed(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))


def change_of(file: str, old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: changed(folder, file, old, new)


def change_event(folder: Path) -> None:
    last = max((folder / LOG).glob("*.jsonl"))
    changed(folder, str(last.relative_to(folder)), '"verdict":"success"', '"verdict":"failure"')


def change_base(folder: Path) -> None:
    """The bank from which all trials were forked: a guide in it, and its cost, are in the report."""
    log = max((folder / "banks" / "base").glob("*.jsonl"))
    changed(folder, str(log.relative_to(folder)), '"purpose":"base"', '"purpose":"best"')


def replace_base(folder: Path) -> None:
    shutil.rmtree(folder / "banks" / "base")
    Bank.create(folder / "banks" / "base", purpose="base").close()


def append_event(folder: Path) -> None:
    with Bank.open(folder / LOG) as bank:
        bank.append(
            RunJudged(
                run="t1-with-1", purpose="learning", verdict="failure", judge="me", judge_version="1", kind="human"
            )
        )


def remove_last_run(folder: Path) -> None:
    """Leave a log that is sound and ends earlier, as if the rest had never been written."""
    last = max((folder / LOG).glob("*.jsonl"))
    lines = last.read_bytes().splitlines(keepends=True)
    begun = max(at for at, line in enumerate(lines) if b'"type":"run_started"' in line)
    last.write_bytes(b"".join(lines[:begun]))


def remove_row(folder: Path) -> None:
    rows = (folder / ROWS).read_text().splitlines(keepends=True)
    (folder / ROWS).write_text("".join(rows[:3] + rows[4:]))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "an event": (change_event, "banks/with/o1-r0: "),
    "a number": (
        change_of(CONDITIONS, '"mean": 0.5', '"mean": 0.75'),
        "results/conditions.json, conditions[0].metrics.",
    ),
    "the suite": (change_of(SUITE, "What is 1?", "What is 11?"), "the suite has the digest"),
    "a run removed from the log": (remove_last_run, "banks/with/o1-r0, its end: 9 events are missing"),
    "a byte of the common bank": (change_base, "banks/base"),
    "another common bank": (replace_base, "banks/base, "),
    "an event added": (append_event, "banks/with/o1-r0, its end: 1 events came later"),
    "a bank removed": (lambda folder: shutil.rmtree(folder / LOG), "banks/with/o1-r0, the log: it is missing"),
    "a row": (
        change_of(ROWS, '"iterations":1', '"iterations":2'),
        "runs.jsonl, line 1.iterations: 2, computed again: 1",
    ),
    "a row removed": (remove_row, "runs.jsonl, line 4"),
    "a cell": (change_of(SHEET, "pair", "pear"), "results/runs.csv, line 2"),
    "the page": (change_of(PAGE, "<h1>pair", "<h1>great"), "report.html, line"),
    "a file removed": (lambda folder: (folder / PAGE).unlink(), "report.html: it is missing"),
    "the definition": (
        change_of(DEFINITION, "seed = 1", "seed = 2"),
        "was changed after banks/without/o0-r0 began, in seed",
    ),
    "a head": (change_of(CONDITIONS, '"head": "', '"head": "1'), "banks/without/o0-r0"),
    "no JSON": (change_of(CONDITIONS, "{", "[["), "results/conditions.json: "),
}
QUICK = ("an event", "a number", "the suite")


@pytest.mark.slow
def test_a_report_holds_and_its_digest_names_it(kept: Path, tmp_path: Path) -> None:
    seen = check_report(kept)
    assert seen.holds and (seen.logs, seen.runs, seen.files) == (6, 24, 4)
    assert check_report(Path(shutil.copytree(kept, tmp_path / "copy"))) == seen
    assert isinstance(seen, ReportCheck) and len(seen.digest) == 64


@pytest.mark.parametrize("change", [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow) for c in CHANGES])
def test_a_check_finds_and_names_a_change(folder: Path, change: str) -> None:
    make, said = CHANGES[change]
    make(folder)
    seen = check_report(folder)
    assert not seen.holds
    assert said in str(seen.differences[0]), seen.differences[0]


# ---------------------------------------------------------------- compare


@pytest.mark.slow
def test_two_runs_are_compared_by_condition_with_welchs_interval(data: ExperimentData, tmp_path: Path) -> None:
    other = read_experiment(
        written(tmp_path / "other", right=lambda trial, at, task: at > trial.order + (trial.condition == "with"))
    )
    found = compare(results_of(data), results_of(other))
    [of_with] = [each for each in found.metrics if (each.condition, each.metric) == ("with", "success")]

    def units(given: ExperimentData) -> list[float]:
        own = [[row.success for row in given.rows if (row.condition, row.order) == ("with", at)] for at in range(3)]
        return [mean(map(float, each)) for each in own]

    theirs = scipy.stats.ttest_ind(units(other), units(data), equal_var=False).confidence_interval()
    assert of_with.difference.mean == pytest.approx(mean(units(other)) - mean(units(data)))
    assert (of_with.difference.low, of_with.difference.high) == pytest.approx((theirs.low, theirs.high))
    assert not found.only_first and not found.only_second and found.differing == {}
    smaller = read_experiment(written(tmp_path / "smaller", suite=suite_of(3)))
    with pytest.raises(BadInput, match="two suites"):
        compare(results_of(data), results_of(smaller))


@pytest.mark.slow
def test_a_copy_is_no_second_run(kept: Path, data: ExperimentData, tmp_path: Path) -> None:
    """Wholly or in part: each trial that both have is counted by its head."""
    assert compare(results_of(data), results_of(data)).shared == 6
    place = Path(shutil.copytree(kept, tmp_path / "part"))
    shutil.rmtree(place / LOG)
    part = compare(results_of(data), results_of(read_experiment(place)))
    assert (part.shared, part.trials) == (5, 5)
    said = run("experiment", "compare", str(kept), str(place), cwd=tmp_path).out
    assert "5 trials of 5 are the same in both" in said and "tell nothing about how runs differ" in " ".join(
        said.split()
    )


def test_a_guide_has_paid_for_its_cost_after_the_tasks_that_its_mean_saving_says(data: ExperimentData) -> None:
    """On the page, too; in a metric in which nothing is saved, never."""
    guide = GuideWorth(
        artifact="g", run="w", chars=935, lm_calls=7, tokens=None, cost_usd=None, grounded_share=0.75, verdict=None
    )
    layered = [
        msgspec.structs.replace(each, layers=("L3",) if each.name == "with" else ()) for each in pair().condition
    ]
    experiment = msgspec.structs.replace(pair(), condition=tuple(layered))
    rows = [
        msgspec.structs.replace(row, lm_calls=4 if row.condition == "with" else 6) for row in data.rows if row.selected
    ]
    given = msgspec.structs.replace(data, experiment=experiment, guides=(guide,), rows=tuple(rows))
    results = results_of(given)
    [[paid]] = [each.break_even for each in results.guides]
    assert (paid.condition, paid.baseline) == ("with", "without")
    assert paid.tasks == {"lm_calls": 4, "tokens": None, "cost_usd": None}
    shown = page_of(results, rows)
    assert "cost 7 calls" in shown and "after 4 tasks in calls" in shown and "75.0%" in shown


# ---------------------------------------------------------------- the notebook


def test_the_notebook_runs_without_jupyter_and_finds_the_numbers_of_the_report(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EXPERIMENT", str(kept))
    cells = json.loads((ROOT / "docs" / "experiment.ipynb").read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "experiment.ipynb", "exec"), names)
    found = {name: each["metrics"]["success"]["units"] for name, each in conditions(kept).items()}
    assert {name: {str(unit): value for unit, value in each.items()} for name, each in names["shares"].items()} == found
    assert "too few to say" in capsys.readouterr().out


# ---------------------------------------------------------------- real trials


@pytest.mark.slow
def test_the_report_of_real_trials_holds_and_no_run_was_given_a_lesson_of_its_own_task(tmp_path: Path) -> None:
    require_dspy()
    folder = tmp_path / "run"
    ran(materials(tmp_path, real_pair(2)), folder)
    shipped = FolderHead.of(folder).shipped_ontology()
    assert shipped is not None and shipped.digest == FolderHead.of(folder).source_digest
    write_report(read_experiment(folder, source()), folder)
    assert check_report(folder, source()).holds
    rows = lines(folder)
    assert len(rows) == 8 and all(row["grounded_share"] == 1 and not row["gates_broken"] for row in rows)
    assert not any(each["kind"] == "same task" for row in rows for each in row["contamination"])
    assert any(row["given"] for row in rows)
    with pytest.raises(BadInput, match="name its files with --ont"):
        check_report(folder)
