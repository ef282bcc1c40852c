"""`judge`: judge a run, or measure a judge on cases labelled by an expert."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rbank_es.bank import Bank
from rbank_es.cli.shared.application import Command, command, debug_option, decorated
from rbank_es.cli.shared.arguments import ONTOLOGY_HELP, RegisteredName, judges, open_at, open_whole, read_ontology
from rbank_es.cli.shared.arguments import run_id as whole_run_id
from rbank_es.cli.shared.output import (
    Cell,
    count,
    echo,
    echo_fields,
    echo_heading,
    echo_json,
    echo_table,
    safe_block,
    safe_line,
    styled,
    verdict,
)
from rbank_es.errors import BadInput

if TYPE_CHECKING:
    from rbank_es.events.run_events import Purpose
    from rbank_es.judging.calibration import Calibration, Case
    from rbank_es.judging.judges import JudgingPolicy
    from rbank_es.judging.verdict import Verdict
    from rbank_es.models.choice import LmChoice
    from rbank_es.models.router import Lms
    from rbank_es.sparql.source import Source


class JudgeSources(NamedTuple):
    """The source and the model that a judge may query, as named on the command line."""

    paths: tuple[str, ...]
    endpoint: str | None
    void: str | None
    lm: str | None
    api_base: str | None
    lm_args: tuple[str, ...]

    def choice(self) -> LmChoice | None:
        """Return the model named, None where none is."""
        from rbank_es.models.choice import LmChoice

        if self.lm is None:
            return None
        return LmChoice.parse(self.lm, api_base=self.api_base, arguments=self.lm_args)

    def source(self, stack: ExitStack) -> Source | None:
        """Open the ontology or endpoint named; with a VoID file alone, its schema, without any queries."""
        from rbank_es.sparql.source import open_source

        if self.paths and (self.endpoint is not None or self.void is not None):
            raise BadInput("give --ont, or --endpoint and --void: a judge looks at one source")
        if self.paths:
            found = open_source(ontology=read_ontology(self.paths))
        elif self.endpoint is not None:
            found = open_source(endpoint=self.endpoint, void=self.void)
        elif self.void is not None:
            from rbank_es.judging.grounded_terms import described

            found = described(self.void)
        else:
            return None
        stack.callback(found.close)
        return found


judge_source_options = decorated(
    click.option("--ont", "paths", metavar="PATH", multiple=True, help=ONTOLOGY_HELP),
    click.option("--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead; judges query it."),
    click.option("--void", metavar="FILE", help="A VoID description: of the endpoint, or alone, as a schema."),
    click.option("--lm", "--judge-lm", "lm", metavar="MODEL", help="The model that judges, or script:FILE."),
    click.option("--api-base", metavar="URL", help="Address of your own model server."),
    click.option("--lm-arg", "lm_args", metavar="K=V", multiple=True, help="A parameter of the model."),
)


class JudgeGroup(click.Group):
    """The group of both commands."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one example of each command, unwrapped."""
        with formatter.section("Examples"):
            for made in self.commands.values():
                if isinstance(made, Command):
                    formatter.write(f"  {made.examples[0]}\n")


@click.group("judge", cls=JudgeGroup, options_metavar="", subcommand_metavar="COMMAND ...")
def judge() -> None:
    """Judge a run, or measure a judge on cases labelled by an expert.

    A judge is a set of deterministic checks, the right query of a task, or a model. Verdicts for learning feed the
    bank; verdicts for scoring only measure. Both commands print JSON with --json.
    """


# ---------------------------------------------------------------- calibrate


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
@judge_source_options
def calibrate(cases: str, judge_name: str, bank: str | None, as_json: bool, **options: Any) -> None:
    """Run a judge over labelled cases; print accuracy, precision, recall, kappa, and every disagreement.

    A case has: id, query (the task), agent_sparql, agent_answer, expert_verdict, and optionally expected_sparql,
    expert_reason, outcome. The judge sees nothing from the expert. Without --ont or --endpoint only the words of a
    case are judged. No bank is written to, and no model or endpoint is called but those named here.
    """
    from rbank_es.judging.calibration import calibrate as run_all
    from rbank_es.judging.calibration import load_cases

    given = JudgeSources(**options)
    with ExitStack() as stack:
        labelled = load_cases(cases)
        known = stack.enter_context(open_at(bank)[0]) if bank is not None else None
        found = run_all(labelled, _judge(judge_name, given, known, stack))
    choice = given.choice()
    if as_json:
        model = {"model": choice.name, "scripted": choice.scripted} if choice is not None else {}
        echo_json({"judge": judge_name, **model, **found.as_dict()})
    else:
        _print_calibration(f"{judge_name}, {choice.name}," if choice is not None else judge_name, found)
        _print_scripted_note(choice)


def _judge(name: str, given: JudgeSources, bank: Bank | None, stack: ExitStack) -> Callable[[Case], Verdict]:
    from rbank_es.errors import JudgeFailed, LmFailed
    from rbank_es.judging.judges import decide, needs_of
    from rbank_es.models.call_errors import FATAL, STOPPING

    needs, source, choice = needs_of(name), given.source(stack), given.choice()
    if ("model" in needs) != (choice is not None):
        raise BadInput("--judge lm needs --lm MODEL, and --lm is for --judge lm")
    scratch = stack.enter_context(Bank.create("memory:")) if choice is not None else None

    def judged(case: Case) -> Verdict:
        gold = case.gold if "gold" in needs else None
        if "gold" in needs and gold is None:
            raise JudgeFailed(name, "the case has no expected_sparql")
        try:
            with ExitStack() as calls:
                lms = None
                if scratch is not None and choice is not None:
                    lms = calls.enter_context(_models(scratch, "calibration", choice, case.id))
                return decide(case.run, judge=name, source=source, gold=gold, lms=lms, bank=bank, purpose="scoring")
        except LmFailed as failure:
            # These would fail for every further case too.
            if failure.code in STOPPING or failure.code in FATAL:
                raise
            raise JudgeFailed(name, failure.message) from failure

    return judged


def _models(bank: Bank, run: str, choice: LmChoice, task: str) -> Lms:
    from rbank_es.models.router import Lms

    return Lms(bank, run, {"judge": choice}, task=task)


def _print_calibration(name: str, found: Calibration) -> None:
    metrics = found.metrics
    echo(styled(f"the judge {name} on {count(len(found.judged), 'case')}", "bold"))
    shown = {key: value for key, value in metrics.as_dict().items() if key in ("accuracy", "precision", "recall")}
    shown |= {"F1": metrics.f1, "kappa": metrics.kappa}
    echo_fields({key: "undefined" if value is None else f"{value:.2f}" for key, value in shown.items()})
    echo_heading("verdicts")
    rows: list[list[Cell]] = [
        ["expert: success", metrics.true_positive, metrics.false_negative],
        ["expert: failure", metrics.false_positive, metrics.true_negative],
    ]
    echo_table(["", "judge: success", "judge: failure"], rows)
    echo_heading(f"disagreements ({len(found.disagreements)})")
    for each in found.disagreements:
        if each.verdict is not None:
            echo(f"{safe_line(each.case.id)}: {safe_line(each.case.query)}")
            echo(f"  judge   {verdict(each.verdict.success)}: {safe_line(each.verdict.reason)}")
            why = f": {safe_line(each.case.expert_reason)}" if each.case.expert_reason else ""
            echo(f"  expert  {verdict(each.case.expert_verdict)}{why}")
    if found.unjudged:
        echo_heading(f"without a verdict ({len(found.unjudged)})")
        for each in found.unjudged:
            echo(f"{safe_line(each.case.id)}: {safe_line(each.failure)}")


def _print_scripted_note(choice: LmChoice | None) -> None:
    from rbank_es.cli.shared.agent_options import SCRIPTED

    if choice is not None and choice.scripted:
        echo(styled(f"\n{SCRIPTED}", "yellow"))


# ---------------------------------------------------------------- run


@command(
    "run",
    "rbank-es judge run notes run-7 --ont model.ttl",
    "rbank-es judge run notes run-7 --ont model.ttl --gold 'SELECT …' --purpose scoring",
)
@click.argument("bank")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--judge", "judge_name", type=RegisteredName(judges),
    help="Who judges; default: by the bank's policy.",
)  # fmt: skip
@click.option(
    "--gold", metavar="SPARQL", help="The right query. It judges for learning only under a supervised policy."
)
@click.option(
    "--purpose", type=click.Choice(["learning", "scoring"]), default="learning", show_default=True,
    help="The use of the verdict.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Write nothing to the bank, not even model calls.")
@judge_source_options
def run(
    bank: str,
    run_id: str,
    judge_name: str | None,
    gold: str | None,
    purpose: Purpose,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge a run of a bank from its own events, and record the verdict; the latest of each purpose stands."""
    from rbank_es.judging.gold import gold_of
    from rbank_es.judging.judges import decide, policy_for
    from rbank_es.judging.run_outcome import outcome_of

    given = JudgeSources(**options)
    with ExitStack() as stack:
        opened = stack.enter_context(open_whole(bank))
        run_id = whole_run_id(opened, run_id)
        outcome = outcome_of(opened, run_id)
        choice = given.choice()
        with opened.as_of() as view:
            name, policy = policy_for(view, judge_name)
        _check_use(name, policy, choice, gold, purpose)
        # Model calls are recorded wherever they are made: in a dry run, in a bank that is thrown away.
        record = stack.enter_context(Bank.create("memory:")) if dry_run else opened
        lms = stack.enter_context(_models(record, run_id, choice, run_id)) if choice is not None else None
        judged = decide(
            outcome,
            judge=name,
            policy=policy,
            source=given.source(stack),
            gold=gold_of(gold, None),
            lms=lms,
            bank=opened,
            purpose=purpose,
        )
        position = None if dry_run else opened.append(judged.event(run_id)).last
    if as_json:
        echo_json(judged.as_dict() | {"run": run_id, "position": position, "findings": judged.findings})
        return
    echo(styled(verdict(judged.success) or "", "green" if judged.success else "red"))
    echo(safe_block(judged.reason))
    echo_fields({"judge": f"{judged.judge}-{judged.judge_version}", "purpose": purpose, "position": position})
    _print_scripted_note(choice if judged.kind == "lm" else None)


def _check_use(name: str, policy: JudgingPolicy, choice: LmChoice | None, gold: str | None, purpose: Purpose) -> None:
    """Raise `BadInput` for an option that would not be used."""
    from rbank_es.judging.judges import needs_of

    if choice is not None and "model" not in needs_of(name):
        raise BadInput(f"the judge {name} calls no model: leave out --judge-lm, or add --judge lm")
    if gold is not None and not gold.strip():
        raise BadInput("--gold holds no query")
    if gold is not None and purpose == "learning" and not policy.supervised:
        raise BadInput(
            "a right query judges for learning only under a policy that is supervised: add --purpose scoring"
        )


judge.params.append(debug_option())
judge.add_command(calibrate)
judge.add_command(run)
