"""Folders of experiments from strangers: nothing in them is followed or waited for, and no claim is believed.

What a trial declares must be what the definition and the suite say; what a person did to its bank is found.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import ExperimentFinished, JudgmentOverruled, RunJudged, RunStarted
from rbank_es.lab.experiment_definition import parse_experiment
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.experiment_results import results_of
from rbank_es.lab.experiment_run import prepare_folder
from rbank_es.lab.report import CONDITIONS, PAGE, ROWS, write_report
from rbank_es.lab.report_check import check_report
from rbank_es.lab.run_rows import rows_of
from rbank_es.lab.tamper_evidence import begin, fork_point
from rbank_es.lab.trial import tables_of
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_pages import write_trial_pages
from rbank_es.lab.trial_place import DEFINITION, ENVIRONMENT, SUITE, TrialPlace
from rbank_es.lab.trial_record import results_digest
from rbank_es.log import Head
from tests.lab.folders import end, pair, record_trial, suite_of, trial_events, written
from tests.lab.trials import materials, ran
from tests.lab.trials import pair as real_pair
from tests.loop.loops import source
from tests.sandbox.sandboxes import require_dspy

# ---------------------------------------------------------------- links, pipes and names


@pytest.mark.slow
@pytest.mark.parametrize("part", [DEFINITION, SUITE, ENVIRONMENT, "banks", "banks/with", "banks/with/o0-r0", "results"])
def test_no_link_leads_out_of_a_folder(folder: Path, tmp_path: Path, part: str) -> None:
    """Neither to read what is elsewhere, nor to write there."""
    (folder / part).rename(tmp_path / "elsewhere")
    (folder / part).symlink_to(tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()}
    with pytest.raises(BadInput, match="symbolic link"):
        write_report(read_experiment(folder), folder)
    assert before == {path: path.read_bytes() for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()}


@pytest.mark.slow
def test_pages_of_trials_are_written_through_no_link(folder: Path, tmp_path: Path) -> None:
    """A link in the place of a folder is refused, one in the place of a page is replaced."""
    trials, victim = read_experiment(folder).trials, tmp_path / "victim"
    victim.mkdir()
    for part in ("pages", "pages/without"):
        (folder / part).symlink_to(victim)
        with pytest.raises(BadInput, match="symbolic link"):
            write_trial_pages(trials, folder)
        (folder / part).unlink()
        (folder / part).mkdir()
    (victim / "kept").write_text("kept")
    (folder / "pages" / "without" / "o0-r0.html").symlink_to(victim / "kept")
    first, *_ = write_trial_pages(trials, folder)
    assert not first.is_symlink() and first.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in victim.iterdir()] == ["kept"] and (victim / "kept").read_text() == "kept"


@pytest.mark.slow
@pytest.mark.parametrize("part", [DEFINITION, SUITE, ENVIRONMENT, CONDITIONS, PAGE])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(folder: Path, part: str) -> None:
    (folder / part).unlink()
    os.mkfifo(folder / part)
    seen = check_report(folder)
    assert not seen.holds and "named pipe" in "".join(map(str, seen.differences))


@pytest.mark.slow
def test_banks_that_were_cut_off_are_counted_by_the_names_that_trials_give_them(folder: Path) -> None:
    places = folder / "cut" / "with"
    for name in ("o0-r0-cut1", "o0-r0-cut2", "o0-r0-cutX", "o0-r0-cut", "o1-r0-cut1.old"):
        (places / name).mkdir(parents=True)
    assert {each.place: each.cuts for each in read_experiment(folder).trials if each.cuts} == {"banks/with/o0-r0": 2}
    place = TrialPlace(folder, trials(pair())[1])
    assert [path.name for path in place.cuts] == ["o0-r0-cut1", "o0-r0-cut2"] and place.next_cut.name == "o0-r0-cut3"


@pytest.mark.slow
@pytest.mark.parametrize(
    "held",
    [b"", b"[]", b"{}", b"[" * 100_000, b'{"trials": [{"place": 1}]}', b"null", b'{"a": 1e999}', b'{"a": "\xff"}'],
)
def test_a_report_that_is_no_report_is_a_difference(folder: Path, held: bytes) -> None:
    for name in (CONDITIONS, ROWS):
        (folder / name).write_bytes(held)
    seen = check_report(folder)
    assert {each.file for each in seen.differences} == {CONDITIONS, ROWS}


# ---------------------------------------------------------------- an experiment that goes on in a stranger's folder


@pytest.mark.parametrize("part", [DEFINITION, "banks", "banks/with", "banks/with/o0-r0", "cut"])
def test_no_link_in_a_folder_is_followed_to_go_on_with_its_experiment(tmp_path: Path, part: str) -> None:
    """Neither are banks written elsewhere, nor is another file quoted in the message."""
    given, folder, elsewhere = materials(tmp_path / "place"), tmp_path / "run", tmp_path / "elsewhere"
    prepare_folder(given, folder)
    if part == DEFINITION:
        elsewhere.write_text("root:secret")
        (folder / part).unlink()
    else:
        elsewhere.mkdir()
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
    (folder / part).symlink_to(elsewhere)
    with pytest.raises(BadInput, match="symbolic link") as refused:
        prepare_folder(given, folder)
    assert "secret" not in str(refused.value)
    assert elsewhere.is_file() or not [*elsewhere.iterdir()]


def test_a_file_in_the_place_of_the_folder_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"notes.txt is a file, where the folder of an experiment must be: run it in"):
        prepare_folder(materials(tmp_path / "place"), tmp_path / "notes.txt")


# ---------------------------------------------------------------- claims


@pytest.mark.slow
def test_other_code_another_suite_and_another_trial_in_a_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="results of different code"):
        read_experiment(written(tmp_path / "code", environment_commit="d" * 40))
    with pytest.raises(BadInput, match="recorded another definition or environment"):
        folder = written(tmp_path / "suite", suite=suite_of(4))
        other = written(tmp_path / "other", suite=suite_of(5))
        shutil.rmtree(folder / "banks" / "with" / "o0-r0")
        shutil.copytree(other / "banks" / "with" / "o0-r0", folder / "banks" / "with" / "o0-r0")
        read_experiment(folder)
    with pytest.raises(BadInput, match="is the bank of another trial: pair, with, order 1"):
        folder = written(tmp_path / "trial")
        shutil.rmtree(folder / "banks" / "with" / "o0-r0")
        shutil.copytree(folder / "banks" / "with" / "o1-r0", folder / "banks" / "with" / "o0-r0")
        read_experiment(folder)
    with pytest.raises(BadInput, match="don't descend from one bank"):
        folder, other = written(tmp_path / "one"), written(tmp_path / "two")
        shutil.rmtree(folder / "banks" / "with" / "o0-r0")
        shutil.copytree(other / "banks" / "with" / "o0-r0", folder / "banks" / "with" / "o0-r0")
        read_experiment(folder)


@pytest.mark.slow
def test_a_history_made_again_with_right_checksums_is_found_by_its_head(folder: Path) -> None:
    """Whoever changes a log may make all its checksums again; the report names the head that was."""
    place = TrialPlace(folder, next(each for each in trials(pair()) if each.condition == "with" and each.order == 1))
    with Bank.open(place.bank) as bank:
        was = bank.head()
    shutil.rmtree(place.bank)
    with Bank.open(folder / "banks" / "base") as base, base.fork(place.bank, fork_point(base)) as bank:
        record_trial(folder, base, bank, place.trial, pair(), suite_of(), lambda *_: True, commit="c" * 40)
        assert Head.parse(str(was)).seq == bank.position
    first = check_report(folder).differences[0]
    assert (first.file, first.computed) == ("banks/with/o1-r0", str(was)) and "another history" in first.place


def relived(folder: Path, change: Callable[[list[Any]], list[Any]], number: int = 1, **told: Any) -> Path:
    """Record the trial of a number again in its place, with its events changed; all checksums are right."""
    experiment, suite = pair(), suite_of()
    trial = trials(experiment)[number]
    place = TrialPlace(folder, trial).bank
    shutil.rmtree(place)
    with Bank.open(folder / "banks" / "base") as base, base.fork(place, fork_point(base)) as bank:
        bank.set_policies(tables_of(experiment.named(trial.condition).choices()))
        first, *events = change(trial_events(trial, experiment, suite, lambda *_: True, {"commit": "c" * 40} | told))
        begin(folder, base, bank, first, experiment)
        bank.append(events)
        bank.append(end(bank, trial, experiment, suite))
    return folder


def restarted(**fields: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda events: [msgspec.structs.replace(events[0], **fields), *events[1:]]


def without_last_task(events: list[Any]) -> list[Any]:
    begun = max(at for at, event in enumerate(events) if isinstance(event, RunStarted))
    return events[:begun]


def backwards(events: list[Any]) -> list[Any]:
    """The same runs in the opposite order, under a declaration of the right one."""
    starts = [at for at, event in enumerate(events) if isinstance(event, RunStarted)]
    runs = [events[a:b] for a, b in zip(starts, [*starts[1:], len(events)], strict=True)]
    return [events[0], *(event for run in reversed(runs) for event in run)]


def changed_definition(folder: Path, old: str, new: str) -> None:
    """Change the definition, and the digest by which the environment names it."""
    text = (folder / DEFINITION).read_text()
    assert old in text
    (folder / DEFINITION).write_text(text.replace(old, new))
    facts = msgspec.json.decode((folder / ENVIRONMENT).read_bytes())
    facts["definition"] = parse_experiment((folder / DEFINITION).read_bytes()).digest
    (folder / ENVIRONMENT).write_bytes(msgspec.json.encode(facts))


@pytest.mark.parametrize("change", [("iterations = 12", "iterations = 6"), ('layers = ["L0"]', "layers = []")])
def test_a_definition_that_was_changed_after_the_runs_is_found_though_its_digest_was_changed_too(
    folder: Path, change: tuple[str, str]
) -> None:
    changed_definition(folder, *change)
    with pytest.raises(BadInput, match="the definition was changed after banks/without/o0-r0 began, in condition"):
        read_experiment(folder)
    assert "changed after" in str(check_report(folder).differences[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (restarted(config_digest="1" * 64), "other settings than the definition has for 'with'"),
        (restarted(tasks=("t1", "t0", "t2", "t3")), "other tasks, or another order"),
        (restarted(tasks=("t0",)), "other tasks, or another order"),
    ],
)
def test_a_trial_that_declares_other_settings_or_tasks_is_refused(
    folder: Path, change: Callable[[list[Any]], list[Any]], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        read_experiment(relived(folder, change))


@pytest.mark.slow
def test_runs_under_other_settings_are_refused(folder: Path) -> None:
    with pytest.raises(BadInput, match="names other settings than the definition"):
        read_experiment(relived(folder, lambda events: events, config_digest="3" * 64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "state", "why"),
    [
        (without_last_task, "unfinished", "no run ended of"),
        (backwards, "altered", "in another order than that of the trial"),
    ],
)
def test_a_trial_without_all_its_tasks_in_their_order_is_in_no_number(
    folder: Path, change: Callable[[list[Any]], list[Any]], state: str, why: str
) -> None:
    found = results_of(read_experiment(relived(folder, change)))
    assert [(each.place, each.state) for each in found.incomplete] == [("banks/with/o0-r0", state)]
    assert why in found.incomplete[0].why
    with_memory = found.named("with")
    assert with_memory is not None and with_memory.metrics["success"].units.keys() == {1, 2}


HUMAN = {"run": "t1-with-1", "verdict": "failure", "judge": "me", "judge_version": "1", "kind": "human"}


@pytest.mark.slow
@pytest.mark.parametrize("act", ["a verdict", "an overruled verdict", "a policy"])
def test_a_trial_on_whose_bank_a_person_acted_is_in_no_number_and_the_act_is_named(folder: Path, act: str) -> None:
    with Bank.open(folder / "banks" / "with" / "o1-r0") as bank:
        if act == "a verdict":
            bank.append(RunJudged(purpose="learning", **HUMAN))
        elif act == "a policy":
            bank.set_policies({"retrieval": {"name": "bm25", "k_success": 4}})
        else:
            bank.append(JudgmentOverruled(purpose="learning", by="me", reason="I think so", **HUMAN))
    [left] = results_of(read_experiment(folder)).incomplete
    assert (left.place, left.state) == ("banks/with/o1-r0", "altered")
    assert "somebody acted on its bank" in left.why


@pytest.mark.slow
def test_results_that_are_not_those_recorded_at_the_end_of_a_trial_are_found_in_a_report_made_afterwards(
    folder: Path,
) -> None:
    """A score by the right answer that came later, with all checksums and a new report: the trial itself disagrees."""
    with Bank.open(folder / "banks" / "with" / "o1-r0") as bank:
        wrong = next(
            each
            for each in bank.events(types={"run_judged"})
            if isinstance(each, RunJudged) and each.purpose == "scoring" and each.verdict == "failure"
        )
        bank.append(
            RunJudged(
                run=wrong.run, purpose="scoring", verdict="success", judge="gold", judge_version="1", kind="gold",
                suite=wrong.suite,
            )
        )  # fmt: skip
    write_report(read_experiment(folder), folder)
    seen = check_report(folder)
    assert [(each.file, each.place) for each in seen.differences] == [("banks/with/o1-r0", "its results")]
    assert "which it recorded at its end" in seen.differences[0].found


@pytest.mark.slow
def test_a_score_that_was_forged_from_the_beginning_to_the_report_is_found_by_comparing_again(tmp_path: Path) -> None:
    """Every checksum, digest and number is right: only the right answer disagrees."""
    require_dspy()
    folder = tmp_path / "run"
    given = materials(tmp_path, real_pair(1))
    ran(given, folder)
    place = TrialPlace(folder, trials(given.experiment)[0]).bank
    with Bank.open(place) as bank:
        begun = next(bank.events(types={"experiment_started"})).seq
        events = [each for each in bank.events(resolve=True) if each.seq >= begun]
    shutil.rmtree(place)
    forged = [_forged(each) for each in events if not isinstance(each, ExperimentFinished)]
    ended = next(each for each in events if isinstance(each, ExperimentFinished))
    with Bank.open(folder / "banks" / "base") as base, base.fork(place, fork_point(base)) as bank:
        bank.set_policies(tables_of(given.experiment.condition[0].choices()))
        bank.append(forged)
        digest = results_digest(rows_of(TrialLog.of(bank), given.suite))
        bank.append(msgspec.structs.replace(ended, seq=0, result_digest=digest))
    write_report(read_experiment(folder, source()), folder)
    seen = check_report(folder, source())
    assert {each.file for each in seen.differences} == {"banks/without/o0-r0"}
    beginning, *scores = seen.differences
    assert "its beginning is that of another bank" in beginning.found
    assert scores and all("the score of" in each.place and each.computed == "success" for each in scores)


def _forged(event: Any) -> Any:
    """Return an event as if it were new, a score turned around."""
    wrong = {"verdict": "failure"} if isinstance(event, RunJudged) and event.purpose == "scoring" else {}
    return msgspec.structs.replace(event, seq=0, **wrong)
