"""`judge calibrate`: the verdicts of a judge on cases labelled by an expert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from rbank_es.bank import Bank
from rbank_es.cli.shared.arguments import NumberRange, RegisteredName, judges, open_at
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.judge_sources import JudgeSources, asked_verdict, judge_source_options, models_of_judge
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_scripted,
    echo_table,
    styled,
)
from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events.readable_text import count, safe_line
from rbank_es.judging.verdict import Verdict
from rbank_es.lab.calibration import Calibration, Case, load_cases
from rbank_es.lab.calibration import calibrate as run_all
from rbank_es.lab.judge_confidence import Threshold
from rbank_es.system.proportion import percent


@command(
    "calibrate",
    "rbank-es judge calibrate --cases cases.json",
    "rbank-es judge calibrate --cases cases.json --judge gold --ont model.ttl --json",
    "rbank-es judge calibrate --cases cases.json --judge lm --lm openai/gpt-4.1-mini --bank notes",
)
@click.option("--cases", metavar="FILE", required=True, help="Labelled cases, as a JSON list or JSON Lines.")
@click.option(
    "--judge", "judge_name", type=RegisteredName(judges), default="checks", show_default=True,
    help="Who judges; lm is checks and a model, gold is the right query of each case.",
)  # fmt: skip
@click.option("--bank", metavar="BANK", help="The bank whose principles and past cases the model gets.")
@click.option(
    "--alpha", metavar="SHARE", type=NumberRange(0, 1, min_open=True, max_open=True), default=0.1,
    show_default=True, help="The share of wrong verdicts that may be accepted, for a threshold of confidence.",
)  # fmt: skip
@judge_source_options
def calibrate(cases: str, judge_name: str, bank: str | None, alpha: float, as_json: bool, **options: Any) -> None:
    """Run a judge over labelled cases; print how often it decides, how often it is right then, and every disagreement.

    For a judge that gives its confidence, the least threshold of it is sought at which no more than --alpha of the
    accepted verdicts are wrong; the judging policy's confidence_min takes it.

    A case has: id, query (the task), agent_sparql, agent_answer, expert_verdict, and optionally expected_sparql,
    expert_reason, outcome. The judge sees nothing from the expert. Without --ont or --endpoint only the words of a
    case are judged. No bank is written to, and no model or endpoint is called but those named here.
    """
    given = JudgeSources(**options)
    with ExitStack() as stack:
        labelled = load_cases(cases)
        known = stack.enter_context(open_at(bank)[0]) if bank is not None else None
        found = run_all(labelled, _judge(judge_name, given, known, stack))
    choice = given.choice()
    if as_json:
        model = {"model": choice.name, "scripted": choice.scripted} if choice is not None else {}
        echo_json({"judge": judge_name, **model, **found.as_dict(alpha)})
    else:
        _print_calibration(f"{judge_name}, {choice.name}," if choice is not None else judge_name, found, alpha)
        if choice is not None and choice.scripted:
            echo_scripted()


def _judge(name: str, given: JudgeSources, bank: Bank | None, stack: ExitStack) -> Callable[[Case], Verdict]:
    from rbank_es.judging.judges import needs_of

    needs, source, choice = needs_of(name), given.source(stack), given.choice()
    if ("model" in needs) != (choice is not None):
        raise BadInput("--judge lm needs --lm MODEL, and --lm is for --judge lm")
    scratch = stack.enter_context(Bank.create("memory:")) if choice is not None else None

    def judged(case: Case) -> Verdict:
        gold = case.gold if "gold" in needs else None
        if "gold" in needs and gold is None:
            raise JudgeFailed(name, "the case has no expected_sparql")
        lms = models_of_judge(scratch, "calibration", choice, case.id)
        # For scoring, where the right answer counts without a supervised policy.
        return asked_verdict(case.run, name, lms, source=source, gold=gold, bank=bank, purpose="scoring")

    return judged


def _print_calibration(name: str, found: Calibration, alpha: float) -> None:
    metrics, facts = found.metrics, found.as_dict()
    echo(styled(f"the judge {name} on {count(len(found.judged), 'case')}", "bold"))
    shown = {key: value for key, value in metrics.as_dict().items() if key in ("accuracy", "precision", "recall")}
    shown |= {"F1": metrics.f1, "kappa": metrics.kappa}
    fields = {key: "undefined" if value is None else f"{value:.2f}" for key, value in shown.items()}
    fields["accuracy"] += _interval(facts["accuracy_interval"])
    judged = metrics.cases + len(found.undecided)
    share = f" ({facts['undecided_share']:.2f}{_interval(facts['undecided_interval'])})" if judged else ""
    echo_fields({"undecided": f"{len(found.undecided)} of {judged}{share}"} | fields)
    _print_threshold(found.threshold(alpha))
    echo_heading("verdicts")
    left = Counter(each.case.expert_verdict for each in found.undecided)
    rows: list[list[Cell]] = [
        ["expert: success", metrics.true_positive, metrics.false_negative, left[True]],
        ["expert: failure", metrics.false_positive, metrics.true_negative, left[False]],
    ]
    echo_table(["", "judge: success", "judge: failure", "undecided"], rows)
    echo_heading(f"disagreements ({len(found.disagreements)})")
    for each in found.disagreements:
        if each.verdict is not None:
            echo(f"{safe_line(each.case.id)}: {safe_line(each.case.query)}")
            echo(f"  judge   {each.verdict.verdict}: {safe_line(each.verdict.reason)}")
            why = f": {safe_line(each.case.expert_reason)}" if each.case.expert_reason else ""
            echo(f"  expert  {'success' if each.case.expert_verdict else 'failure'}{why}")
    if found.unjudged:
        echo_heading(f"without a verdict ({len(found.unjudged)})")
        for each in found.unjudged:
            echo(f"{safe_line(each.case.id)}: {safe_line(each.failure)}")


def _interval(ends: tuple[float, float] | None) -> str:
    return f", 95 % of {ends[0]:.2f} to {ends[1]:.2f}" if ends is not None else ""


def _print_threshold(found: Threshold) -> None:
    """Print the threshold of confidence; nothing if no verdict had a confidence."""
    if not found.graded:
        return
    echo_heading(f"confidence, with at most {percent(found.alpha)} of the accepted verdicts wrong")
    if found.confidence is None:
        enough = found.graded >= found.needed
        why = (
            "too many verdicts are wrong"
            if enough
            else f"it takes {found.needed} verdicts, and there are {found.graded}"
        )
        echo(f"no threshold can be shown: {why}")
    else:
        of = f"{found.accepted} of {found.graded} verdicts, {found.wrong} of them wrong"
        echo(f"confidence_min = {found.confidence:g} accepts {of}")
