"""Beginnings of trials: what somebody changes after the runs is named, also where every report is made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import ExperimentStarted
from rbank_es.lab.experiment_definition import parse_experiment
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.report import CONDITIONS, PAGE, write_report
from rbank_es.lab.report_check import check_report
from rbank_es.lab.tamper_evidence import begin, fork_point
from rbank_es.lab.trial import tables_of
from rbank_es.lab.trial_place import DEFINITION, ENVIRONMENT, TrialPlace, base_place
from tests.lab.folders import end, groups, pair, record_trial, suite_of, trial_events

FIRST, SECOND, *_, LAST = trials(pair())


def defined(folder: Path, old: str, new: str, *, environment: bool = True) -> None:
    """Change the definition; and the digest by which the environment names it."""
    text = (folder / DEFINITION).read_text()
    assert old in text
    (folder / DEFINITION).write_text(text.replace(old, new, 1))
    if environment:
        facts = msgspec.json.decode((folder / ENVIRONMENT).read_bytes())
        facts["definition"] = parse_experiment((folder / DEFINITION).read_bytes()).digest
        (folder / ENVIRONMENT).write_bytes(msgspec.json.encode(facts))


def defining(old: str, new: str, *, environment: bool = True) -> Callable[[Path], None]:
    return lambda folder: defined(folder, old, new, environment=environment)


def remove(folder: Path, trial: Any = SECOND) -> Path:
    place = TrialPlace(folder, trial).bank
    shutil.rmtree(place)
    return place


@contextmanager
def new_bank(folder: Path, place: Path) -> Iterator[tuple[Bank, Bank]]:
    with Bank.open(base_place(folder)) as base, base.fork(place, fork_point(base)) as bank:
        yield base, bank


def run_again(folder: Path) -> None:
    """Remove a trial whose results don't please, and run it until they do."""
    with new_bank(folder, remove(folder)) as (base, bank):
        record_trial(folder, base, bank, SECOND, pair(), suite_of(), lambda *_: True, commit="c" * 40)


def run_again_unsaid(folder: Path, trial: Any = SECOND, **changes: Any) -> None:
    """The same, without a word of it in the common bank, by hand."""
    experiment, suite = pair(), suite_of()
    with Bank.open(TrialPlace(folder, trial).bank) as bank:
        began = next(bank.events(types={"experiment_started"}, resolve=True))
    with new_bank(folder, remove(folder, trial)) as (_, bank):
        bank.set_policies(tables_of(experiment.named(trial.condition).choices()))
        _, *events = trial_events(trial, experiment, suite, lambda *_: True, {"commit": "c" * 40})
        bank.append(msgspec.structs.replace(began, seq=0, **changes))
        for group in groups(events):
            bank.append(group)
        bank.append(end(bank, trial, experiment, suite))


def other_definition(folder: Path) -> None:
    """Change the definition in the folder, and that which the last trial recorded, too."""
    defined(folder, '["success"]', '["lm_calls"]')
    now = parse_experiment((folder / DEFINITION).read_bytes())
    run_again_unsaid(folder, LAST, definition=now.digest, config=now.to_toml())


def fewer_orders(folder: Path) -> None:
    """Leave out the order that doesn't please."""
    defined(folder, "orders = 3", "orders = 2")
    for trial in trials(pair()):
        if trial.order == 2:
            remove(folder, trial)


def forget_base(folder: Path) -> None:
    shutil.rmtree(base_place(folder))


def base_of_its_own(folder: Path) -> None:
    """Put a new common bank in the place of the one that tells of two beginnings."""
    run_again(folder)
    forget_base(folder)
    Bank.create(base_place(folder), purpose="base").close()


def older_base(folder: Path) -> None:
    """Put back the common bank as it was before the trial that was removed, and run that again."""
    with Bank.open(base_place(folder)) as base:
        second = [event for event in base.events(types={"experiment_started"}, resolve=True)][1]
        base.fork(folder / "older", second.seq - 1).close()
    # A fork has an id of its own; whoever has a copy from before has the log itself.
    log = max(base_place(folder).glob("*.jsonl"))
    lines = log.read_bytes().splitlines(keepends=True)
    begins = [at for at, line in enumerate(lines) if b'"experiment_started"' in line]
    texts = [at for at in range(begins[0] + 1, begins[1]) if b'"type"' not in lines[at]]
    log.write_bytes(b"".join(lines[: min([begins[1], *texts])]))
    shutil.rmtree(folder / "older")
    run_again(folder)


FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a metric added": (defining('["success"]', '["success", "tokens"]'), "metrics, changed after the runs"),
    "another metric, said by the environment alone": (
        defining('["success"]', '["lm_calls"]', environment=False), "metrics, changed after the runs"
    ),
    "a contrast removed": (defining('[["with", "without"]]', "[]"), "contrasts, changed after the runs"),
    "another question": (defining("Does it help?", "Does it harm?"), "question, changed after the runs"),
    "another seed": (defining("seed = 1", "seed = 2"), "changed after banks/without/o0-r0 began, in seed"),
    "other words about a condition": (
        defining('name = "with"\nabout = ""', 'name = "with"\nabout = "best"'), "began, in condition"
    ),
    "orders left out": (fewer_orders, "changed after banks/without/o0-r0 began, in orders"),
    "more repetitions planned": (defining("repetitions = 1", "repetitions = 2"), "began, in repetitions"),
    "another definition in a log": (other_definition, "banks/with/o2-r0 recorded another definition or environment"),
    "a trial run again": (run_again, "it was run again: it had begun 1 times before"),
    "a trial run again unsaid": (run_again_unsaid, "its beginning is that of another bank"),
    "a trial removed": (remove, "the common bank recorded that it began, and it is not there"),
    "the common bank removed": (forget_base, "banks/base, its beginning: it is missing"),
    "another common bank": (base_of_its_own, "banks/base, its beginning: the trials are no forks of it"),
    "an older common bank": (older_base, "banks/base, its beginning: it is not the bank that"),
    "a digest in the environment": (
        lambda folder: (folder / ENVIRONMENT).write_bytes(
            msgspec.json.encode(msgspec.json.decode((folder / ENVIRONMENT).read_bytes()) | {"definition": "1" * 64})
        ),
        "environment.json: it was changed after the trials began",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_is_changed_after_the_runs_is_named_also_where_the_report_is_made_again(
    folder: Path, forgery: str
) -> None:
    make, said = FORGERIES[forgery]
    make(folder)
    with suppress(BadInput):  # a report that can't be made again is left as it was
        write_report(read_experiment(folder), folder)
    seen = check_report(folder)
    assert not seen.holds
    assert any(said in str(each) for each in seen.differences), [*map(str, seen.differences)]


def test_contrasts_added_later_are_shown_as_that_and_change_nothing_about_the_declared_ones(folder: Path) -> None:
    before = json.loads((folder / CONDITIONS).read_bytes())["contrasts"]
    defined(folder, 'metrics = ["success"]', 'metrics = ["success", "lm_calls"]')
    write_report(read_experiment(folder), folder)
    declared, added = json.loads((folder / CONDITIONS).read_bytes())["contrasts"]
    assert [declared] == before and (declared["declared"], added["declared"]) == (True, False)
    assert added["result"]["contrast"]["metric"] == "lm_calls"
    words = (folder / PAGE).read_text()
    first, second = words.index("Declared before the runs"), words.index("Added to the definition after the runs")
    assert first < words.index("share of tasks answered rightly<") < second < words.index("calls of models<")


def test_a_trial_that_was_run_again_says_so_in_its_own_log_and_in_the_report(folder: Path) -> None:
    run_again(folder)
    with Bank.open(TrialPlace(folder, SECOND).bank) as bank:
        [began] = bank.events(types={"experiment_started"})
        assert isinstance(began, ExperimentStarted) and began.earlier == 1
    write_report(read_experiment(folder), folder)
    assert "it had begun 1 time before, in a bank that was removed" in (folder / PAGE).read_text()


def test_a_beginning_is_recorded_once_however_often_it_was_cut_off(tmp_path: Path) -> None:
    """The process may end between the two records: the next one takes up what the common bank has."""
    experiment, suite = pair(), suite_of()
    [started, *_] = trial_events(FIRST, experiment, suite, lambda *_: True, {})
    assert isinstance(started, ExperimentStarted)
    (tmp_path / ENVIRONMENT).write_text("{}")
    with Bank.create(tmp_path / "base") as base:
        point = base.position
        with base.fork(tmp_path / "one", fork_point(base)) as bank, bank.copy(bank.position):
            begin(tmp_path, base, bank, started, experiment)
            [first] = bank.events(types={"experiment_started"})
            begin(tmp_path, base, bank, started, experiment)
            assert [event.id for event in base.events(types={"experiment_started"})] == [first.id]
            assert [event.id for event in bank.events(types={"experiment_started"})] == [first.id]
        assert fork_point(base) == point < base.position


def test_a_trial_that_begins_meanwhile_is_no_part_of_a_fork(tmp_path: Path) -> None:
    """Trials begin side by side: one may record its beginning while another looks for the point to fork at."""
    [started, *_] = trial_events(FIRST, pair(), suite_of(), lambda *_: True, {})
    with Bank.create(tmp_path / "base") as base:
        point = base.position

        class Busy:
            position = property(lambda _: base.position)

            def events(self, **which: Any) -> Iterator[Any]:
                found = list(base.events(**which))
                base.append(started)
                return iter(found)

        assert fork_point(cast(Bank, Busy())) == point < base.position
