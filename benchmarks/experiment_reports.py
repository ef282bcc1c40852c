"""Reports of experiments: 6,000 runs in a hundred banks, from their logs to the page, and the check of it.

SCRIPTED: two conditions of E9 are run over the sixty tasks of the shipped suite, by the loop with all that it
records; each is then copied under fifty numbers of repetitions, event by event. Processor time, because the logs are
read by one process, and others may be at work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dspy
import msgspec

from benchmarks.measure import Goal, Row
from benchmarks.sizes import Sizes
from rbank_es.bank import Bank
from rbank_es.data import LIGHTS, lights
from rbank_es.events import Event, ExperimentFinished, ExperimentStarted, RunStarted
from rbank_es.events.run_events import Trial
from rbank_es.lab.experiment_definition import load_experiment
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.experiment_inputs import Materials, gather
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.experiment_run import prepare_folder, run_experiment
from rbank_es.lab.report import write_report
from rbank_es.lab.report_check import check_report
from rbank_es.lab.run_rows import rows_of
from rbank_es.lab.suite_script import script_of
from rbank_es.lab.tamper_evidence import BEGINNING, begin, fork_point
from rbank_es.lab.task_suite import load_suite
from rbank_es.lab.trial import tables_of
from rbank_es.lab.trial_log import TrialLog
from rbank_es.lab.trial_place import TrialPlace, base_place
from rbank_es.lab.trial_record import results_digest
from rbank_es.models.model_choice import LmChoice
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import Source, open_source

REPETITIONS = 50
GOAL_S = 10


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield the times of a report, and of its check."""
    source = open_source(load_ontology(lights().ontology, id=LIGHTS))
    folder = _copied(place, _lived(place, source))
    began = time.process_time()
    data = read_experiment(folder, source)
    write_report(data, folder)
    took = time.process_time() - began
    began = time.process_time()
    assert check_report(folder, source).holds
    checked = time.process_time() - began
    source.close()
    runs = len(data.rows)
    what = f"SCRIPTED: the report of {runs:,} runs, from their logs"
    yield Row("reports", what, f"{took:.1f} s", goal=Goal("≤", GOAL_S, "s"), value=took)
    what = f"SCRIPTED: {runs:,} runs: every log verified, every score and number computed again"
    yield Row("reports", what, f"{checked:.1f} s")


def _lived(place: Path, source: Source) -> Materials:
    """Run the experiment once, in one order, in `first_folder`, and return its materials for many repetitions."""
    suite, script = load_suite(LIGHTS), place / "script.toml"
    script.write_text(script_of(suite))
    models = {"agent": LmChoice(model=f"script:{script}")}
    once = msgspec.structs.replace(load_experiment("E9"), models=models, orders=1)
    run_experiment(gather(once, suite, source), place / "first_folder", interpreters=dspy.LocalInterpreter)
    return gather(msgspec.structs.replace(once, repetitions=REPETITIONS), suite, source)


def _copied(place: Path, materials: Materials) -> Path:
    """Return the folder `copied`, with the trials of `first_folder` under each number of repetitions."""
    first_folder, folder, experiment = place / "first_folder", place / "copied", materials.experiment
    prepare_folder(materials, folder)
    with Bank.open(base_place(first_folder)) as first:
        # A copy, because the bank from which trials are forked is no fork itself.
        first.log.copy(fork_point(first), str(_made(base_place(folder)))).close()
    with Bank.open(base_place(folder)) as base:
        for trial in trials(experiment):
            own = TrialPlace(first_folder, msgspec.structs.replace(trial, repetition=0)).bank
            with Bank.open(own) as bank, base.fork(_made(TrialPlace(folder, trial).bank), fork_point(base)) as copy:
                copy.set_policies(tables_of(experiment.named(trial.condition).choices()))
                [started] = (each for each in bank.events(types={BEGINNING}) if isinstance(each, ExperimentStarted))
                begin(folder, base, copy, msgspec.structs.replace(started, seq=0, at="", trial=trial), experiment)
                copy.append([*_events(bank, trial)])
                copy.append(_end(bank, copy, trial, materials))
    return folder


def _events(bank: Bank, trial: Trial) -> Iterator[Event]:
    """Yield what a trial recorded between its beginning and its end, as that of another one."""
    began = next(bank.events(types={BEGINNING})).seq
    for event in bank.events(after=began, resolve=True):
        if not isinstance(event, ExperimentFinished):
            own = {"trial": trial} if isinstance(event, RunStarted) else {}
            yield msgspec.structs.replace(event, seq=0, at="", **own)


def _end(bank: Bank, copy: Bank, trial: Trial, materials: Materials) -> Event:
    ended = next(bank.events(types={"experiment_finished"}))
    digest = results_digest(rows_of(TrialLog.of(copy), materials.suite))
    return msgspec.structs.replace(ended, seq=0, at="", id="", trial=trial, result_digest=digest)


def _made(place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
