"""`experiment report`, `check`, `compare`: the results of an experiment, their check, the differences of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.ontology_options import ontology_options, open_named, read_ontology
from rbank_es.cli.shared.output import (
    Cell,
    Progress,
    echo,
    echo_heading,
    echo_json,
    echo_paragraph,
    echo_table,
    styled,
    warn,
)
from rbank_es.errors import BadInput, CheckFailed
from rbank_es.events.readable_text import count, safe_line
from rbank_es.limits import experiment_limits

if TYPE_CHECKING:
    from rbank_es.lab.experiment_comparison import ExperimentComparison
    from rbank_es.lab.experiment_results import Results
    from rbank_es.lab.report_check import ReportCheck
    from rbank_es.sparql.data_source import Source

ont_option = ontology_options(
    "The ontology that the agents asked, to look for flaws and made-up terms; that of 'lights' need not be named."
)
folder_argument = click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))

SHOWN = ("success", "lm_calls", "tokens", "items_in_bank", "contaminated")
"""The metrics of the printed table; --json has all."""


@command("report", "rbank-es experiment report experiments/E9")
@folder_argument
@ont_option
def report(folder: Path, paths: tuple[str, ...], as_json: bool) -> None:
    """Write the report of an experiment into its folder: rows, results, a page, and a page of each bank.

    All of it is computed from the logs of the banks, the suite and the definition: the same folder gives the same
    bytes. Trials that are missing or unfinished, and runs that break a quality gate, are listed and left out.
    """
    from rbank_es.lab.experiment_folder import read_experiment
    from rbank_es.lab.experiment_results import results_of
    from rbank_es.lab.report import write_report
    from rbank_es.lab.trial_pages import PAGES, paged, write_trial_pages

    with ExitStack() as stack, Progress("reading trials") as progress:
        data = read_experiment(folder, _source(folder, paths, stack), progress)
    written = write_report(data, folder)
    results = results_of(data)
    with Progress("writing pages") as progress:
        pages = write_trial_pages(paged(results.trials), folder, progress)
    if as_json:
        echo_json(
            {"folder": str(folder), "files": [str(path) for path in (*written, *pages)], **msgspec.to_builtins(results)}
        )
        return
    _print_results(results)
    names = [*(str(path.relative_to(folder)) for path in written), f"{PAGES} ({len(pages):,})"]
    echo(f"wrote {', '.join(names)} in {safe_line(str(folder))}")
    banks = sum(bool(each.head) for each in results.trials)
    if len(pages) < banks:
        echo(f"{count(banks - len(pages), 'bank')} are too long for a page here; the report names the commands")


@command("check", "rbank-es experiment check experiments/E9")
@folder_argument
@ont_option
def check(folder: Path, paths: tuple[str, ...], as_json: bool) -> None:
    """Verify the logs of an experiment and compute every number of its report again; no model is asked.

    The digest that is printed names the whole report: noted in a safe place, it proves later that logs and report are
    still those. Exit code 1: a log was changed, or a number is not as computed; each difference is named.
    """
    from rbank_es.lab.report_check import check_report

    with ExitStack() as stack, Progress("verifying logs") as progress:
        seen = check_report(folder, _source(folder, paths, stack), progress)
    if as_json:
        echo_json({"folder": str(folder), "ok": seen.holds, **msgspec.to_builtins(seen)})
    else:
        _print_check(folder, seen)
    if not seen.holds:
        raise click.exceptions.Exit(CheckFailed.exit_code)


@command("compare", "rbank-es experiment compare experiments/E9 results/e9-other-model")
@folder_argument
@click.argument("other", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
def compare(folder: Path, other: Path, as_json: bool) -> None:
    """Compare two runs of one experiment: conditions of the same name side by side, each metric with its difference.

    The difference is the second less the first, with Welch's interval over units. Runs of other suites are refused:
    their numbers are of other tasks.
    """
    from rbank_es.lab.experiment_comparison import compare as compared
    from rbank_es.lab.experiment_folder import read_experiment
    from rbank_es.lab.experiment_results import results_of

    with ExitStack() as stack, Progress("reading trials") as progress:
        both = [results_of(read_experiment(each, _source(each, (), stack), progress)) for each in (folder, other)]
    found = compared(*both)
    if as_json:
        echo_json({"first": str(folder), "second": str(other), **msgspec.to_builtins(found)})
    else:
        _print_comparison(found)


def _source(folder: Path, paths: Sequence[str], stack: ExitStack) -> Source | None:
    """Return the source by which queries are checked: the one named, or the shipped one if the agents asked it."""
    from rbank_es.lab.experiment_folder import FolderHead

    if paths:
        return open_named(read_ontology(paths), stack)
    with suppress(BadInput):  # what is wrong with a folder is for the command to say: a check names it
        if (shipped := FolderHead.of(folder).shipped_ontology()) is not None:
            return open_named(shipped, stack)
    return None


# ---------------------------------------------------------------- printing


def _print_results(results: Results) -> None:
    from rbank_es.lab.metrics import METRICS
    from rbank_es.lab.report_words import compared, mark_sentences, said_again, with_interval

    for sentence in mark_sentences(results):
        echo(styled(sentence, "yellow"))
    echo_heading(f"{safe_line(results.experiment)}: {safe_line(results.title)}")
    known = [name for name in SHOWN if any(each.metrics[name].estimate is not None for each in results.conditions)]
    rows: list[list[Cell]] = [
        [
            each.name,
            f"{each.finished} of {each.trials}",
            each.counted,
            *(with_interval(each.metrics[name].estimate, METRICS[name].unit) for name in known),
        ]
        for each in results.conditions
    ]
    echo_table(["condition", "trials", "runs counted", *(name.replace("_", " ") for name in known)], rows)
    for said in results.contrasts:
        later = "" if said.declared else " (added after the runs)"
        echo_paragraph(f"{safe_line(compared(said.result.contrast))}{later}: {said.said}")
    for trial in results.incomplete[: experiment_limits.REPORT_DIFFERENCES]:
        echo_paragraph(f"left out: {trial.place} is {trial.state}" + (f": {safe_line(trial.why)}" if trial.why else ""))
    for trial in results.trials:
        if trial.earlier:
            echo_paragraph(f"run again: {trial.place}: {said_again(trial)}")
    if results.left_out:
        echo(f"left out: {count(len(results.left_out), 'run')} that break a quality gate")


def _print_check(folder: Path, seen: ReportCheck) -> None:
    if seen.holds:
        echo(
            f"the report of {safe_line(str(folder))} holds: {count(seen.logs, 'log')} verified, "
            f"{count(seen.runs, 'run')} and {count(seen.files, 'file')} computed again"
        )
        echo(f"digest {seen.digest}")
        return
    if seen.other_code:
        warn(
            f"the runs are of the code {safe_line(seen.other_code)}, and this is other code: "
            "files may differ because of that alone"
        )
    first, *others = seen.differences
    echo(f"the report of {safe_line(str(folder))} does not hold. The first difference:")
    echo_paragraph(safe_line(str(first)))
    if others:
        echo(f"{count(len(others), 'more difference')}:")
    for each in others[: experiment_limits.REPORT_DIFFERENCES]:
        echo_paragraph(safe_line(str(each)))
    if len(others) > experiment_limits.REPORT_DIFFERENCES:
        echo(f"{count(len(others) - experiment_limits.REPORT_DIFFERENCES, 'more difference')}: --json has all")


def _print_comparison(found: ExperimentComparison) -> None:
    from rbank_es.lab.metrics import METRICS
    from rbank_es.lab.report_words import difference_unit, with_interval

    echo_heading(f"{safe_line(found.experiment)}: two runs over the suite {found.suite[:12]}")
    if found.shared:
        echo_paragraph(
            f"{count(found.shared, 'trial')} of {found.trials:,} are the same in both, log for log: one folder is a "
            "copy of the other, wholly or in part. So these are no two runs, and tell nothing about how runs differ"
        )
    differing: list[list[Cell]] = [
        [name, *(safe_line(text) for text in pair)] for name, pair in found.differing.items()
    ]
    if differing:
        echo_table(["what differs", "first", "second"], differing, flexible=["first", "second"])
    rows: list[list[Cell]] = [
        [
            each.condition,
            each.metric.replace("_", " "),
            *(with_interval(estimate, METRICS[each.metric].unit) for estimate in (each.first, each.second)),
            with_interval(each.difference, difference_unit(METRICS[each.metric].unit)),
        ]
        for each in found.metrics
        if each.metric in SHOWN
    ]
    echo_table(["condition", "metric", "first", "second", "second less first"], rows)
    for names, where in ((found.only_first, "first"), (found.only_second, "second")):
        if names:
            echo(f"only in the {where}: {', '.join(map(safe_line, names))}")


REPORT_COMMANDS: Sequence[Any] = (report, check, compare)
"""The commands, for the group `experiment`."""
