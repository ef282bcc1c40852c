"""`judge`: whether a run succeeded; and how well a judge judges, on cases that an expert has judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from rbank_es.cli.shared.application import Command, command, debug_option
from rbank_es.cli.shared.banks import open_at, open_whole
from rbank_es.cli.shared.ontology_sources import ONTOLOGY_HELP, loaded
from rbank_es.cli.shared.output import Cell, fields, heading, say, say_json, styled, table
from rbank_es.cli.shared.terminal_text import block, count, line
from rbank_es.errors import BadInput

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.judging.calibration import Calibration, Case
    from rbank_es.judging.judges import JudgingPolicy
    from rbank_es.judging.verdict import Verdict
    from rbank_es.models.choice import LmChoice
    from rbank_es.models.router import Lms
    from rbank_es.sparql.source import Source

Options = Callable[[Callable[..., Any]], Callable[..., Any]]
Purpose = Literal["learning", "scoring"]


class Means(NamedTuple):
    """What a judge may look at and ask, as the command line names it."""

    paths: tuple[str, ...]
    endpoint: str | None
    void: str | None
    lm: str | None
    api_base: str | None
    lm_args: tuple[str, ...]

    def choice(self) -> LmChoice | None:
        """The model that is named; None where none is."""
        from rbank_es.models.choice import LmChoice

        if self.lm is None:
            return None
        return LmChoice.parse(self.lm, api_base=self.api_base, arguments=self.lm_args)

    def source(self, stack: ExitStack) -> Source | None:
        """The ontology or endpoint that is named; with a VoID file alone, its schema, and nothing is asked."""
        from rbank_es.sparql.source import open_source

        if self.paths and (self.endpoint is not None or self.void is not None):
            raise BadInput("give --ont, or --endpoint and --void: a judge looks at one source")
        if self.paths:
            found = open_source(ontology=loaded(self.paths))
        elif self.endpoint is not None:
            found = open_source(endpoint=self.endpoint, void=self.void)
        elif self.void is not None:
            from rbank_es.judging.void_source import described

            found = described(self.void)
        else:
            return None
        stack.callback(found.close)
        return found


def means(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what a judge may look at and ask."""
    options: tuple[Options, ...] = (
        click.option("--ont", "paths", metavar="PATH", multiple=True, help=ONTOLOGY_HELP),
        click.option("--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead; judges ask it."),
        click.option("--void", metavar="FILE", help="A VoID description: of the endpoint, or alone, as a schema."),
        click.option("--lm", "--judge-lm", "lm", metavar="MODEL", help="The model that judges, or script:FILE."),
        click.option("--api-base", metavar="URL", help="The address of a model server of one's own."),
        click.option("--lm-arg", "lm_args", metavar="K=V", multiple=True, help="A parameter of the model."),
    )
    for option in reversed(options):
        function = option(function)
    return function


class Judging(click.Group):
    """The two commands, with an example of each."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One example of each command, as it was written."""
        with formatter.section("Examples"):
            for made in self.commands.values():
                if isinstance(made, Command):
                    formatter.write(f"  {made.examples[0]}\n")


@click.group("judge", cls=Judging, options_metavar="", subcommand_metavar="COMMAND ...")
def judge() -> None:
    """Judge a run, or measure a judge on cases that an expert has judged.

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
    "--judge", "judge_name", type=click.Choice(["checks", "gold", "lm"]), default="checks", show_default=True,
    help="Deterministic checks; these and a model; or the right query of each case.",
)  # fmt: skip
@click.option("--bank", metavar="BANK", help="Whose principles and past cases the model is given.")
@means
def calibrate(cases: str, judge_name: str, bank: str | None, as_json: bool, **options: Any) -> None:
    """Run a judge over labelled cases; print accuracy, precision, recall, kappa, and every disagreement.

    A case has: id, query (the task), agent_sparql, agent_answer, expert_verdict, and if you like expected_sparql,
    expert_reason, outcome. The judge sees nothing of what the expert says. Without --ont or --endpoint only the words
    of a case are judged. No bank is written to, and only a model and an endpoint that you name are asked.
    """
    from rbank_es.judging.calibration import calibrate as run_all
    from rbank_es.judging.calibration import load_cases

    given = Means(**options)
    with ExitStack() as stack:
        labelled = load_cases(cases)
        known = stack.enter_context(open_at(bank)[0]) if bank is not None else None
        found = run_all(labelled, _judge(judge_name, given, known, stack))
    choice = given.choice()
    if as_json:
        model = {"model": choice.name, "scripted": choice.scripted} if choice is not None else {}
        say_json({"judge": judge_name, **model, **found.as_dict()})
    else:
        _tell(f"{judge_name}, {choice.name}," if choice is not None else judge_name, found)
        _tell_scripted(choice)


def _judge(name: str, given: Means, bank: Bank | None, stack: ExitStack) -> Callable[[Case], Verdict]:
    from rbank_es.errors import JudgeFailed, LmFailed
    from rbank_es.judging.checks import judge_by_checks
    from rbank_es.judging.judges import decide
    from rbank_es.models.call_errors import FATAL, STOPPING
    from rbank_es.policies import LmJudging

    source, choice = given.source(stack), given.choice()
    if (name == "lm") != (choice is not None):
        raise BadInput("--judge lm needs --lm MODEL, and --lm is for --judge lm")
    if name == "gold":
        return lambda case: _by_gold(case, source)
    if choice is None:
        return lambda case: judge_by_checks(case.run, source, purpose="scoring")
    scratch = stack.enter_context(_scratch())

    def asked(case: Case) -> Verdict:
        try:
            with _models(scratch, "calibration", choice, case.id) as lms:
                return decide(case.run, policy=LmJudging(), source=source, lms=lms, bank=bank, purpose="scoring")
        except LmFailed as failure:
            if failure.code in STOPPING or failure.code in FATAL:
                raise
            raise JudgeFailed("lm", failure.message) from failure

    return asked


def _by_gold(case: Case, source: Source | None) -> Verdict:
    from rbank_es.errors import JudgeFailed
    from rbank_es.judging.gold import judge_by_gold

    if case.gold is None:
        raise JudgeFailed("gold", "the case has no expected_sparql")
    return judge_by_gold(case.run, case.gold, source)


@contextmanager
def _scratch() -> Iterator[Bank]:
    """A bank for the calls of models, which goes away."""
    from rbank_es.bank import Bank

    with Bank.create("memory:") as bank:
        yield bank


def _models(bank: Bank, run: str, choice: LmChoice, task: str) -> Lms:
    from rbank_es.models.router import Lms

    return Lms(bank, run, {"judge": choice}, task=task)


def _tell(name: str, found: Calibration) -> None:
    metrics = found.metrics
    say(styled(f"the judge {name} on {count(len(found.judged), 'case')}", "bold"))
    shown = {key: value for key, value in metrics.as_dict().items() if key in ("accuracy", "precision", "recall")}
    shown |= {"F1": metrics.f1, "kappa": metrics.kappa}
    fields({key: "undefined" if value is None else f"{value:.2f}" for key, value in shown.items()})
    heading("verdicts")
    rows: list[list[Cell]] = [
        ["expert: success", metrics.true_positive, metrics.false_negative],
        ["expert: failure", metrics.false_positive, metrics.true_negative],
    ]
    table(["", "judge: success", "judge: failure"], rows)
    heading(f"disagreements ({len(found.disagreements)})")
    for each in found.disagreements:
        if each.verdict is not None:
            say(f"{line(each.case.id)}: {line(each.case.query)}")
            say(f"  judge   {_word(each.verdict.success)}: {line(each.verdict.reason)}")
            why = f": {line(each.case.expert_reason)}" if each.case.expert_reason else ""
            say(f"  expert  {_word(each.case.expert_verdict)}{why}")
    if found.unjudged:
        heading(f"without a verdict ({len(found.unjudged)})")
        for each in found.unjudged:
            say(f"{line(each.case.id)}: {line(each.failure)}")


def _tell_scripted(choice: LmChoice | None) -> None:
    from rbank_es.cli.shared.agent_options import SCRIPTED

    if choice is not None and choice.scripted:
        say(styled(f"\n{SCRIPTED}", "yellow"))


def _word(success: bool) -> str:
    return "success" if success else "failure"


# ---------------------------------------------------------------- run


@command(
    "run",
    "rbank-es judge run notes run-7 --ont model.ttl",
    "rbank-es judge run notes run-7 --ont model.ttl --gold 'SELECT …' --purpose scoring",
)
@click.argument("bank")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--policy", type=click.Choice(["checks", "lm"]), help="How to judge; as the bank's policy says, unless given."
)
@click.option("--gold", metavar="SPARQL", help="The right query. It scores; it judges for learning only if supervised.")
@click.option(
    "--purpose", type=click.Choice(["learning", "scoring"]), default="learning", show_default=True,
    help="What the verdict is for.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Write nothing to the bank, a model's calls neither.")
@means
def run(
    bank: str,
    run_id: str,
    policy: str | None,
    gold: str | None,
    purpose: Purpose,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge a run of a bank from its own events, and record the verdict; the latest of a purpose holds."""
    from rbank_es.judging.gold import gold_of
    from rbank_es.judging.judges import decide
    from rbank_es.judging.run_outcome import outcome_of

    given = Means(**options)
    with ExitStack() as stack:
        opened = stack.enter_context(open_whole(bank))
        outcome = outcome_of(opened, run_id)
        choice, chosen = given.choice(), _policy(opened, policy)
        _check_use(chosen, choice, gold, purpose)
        record = stack.enter_context(_scratch()) if dry_run else opened
        lms = stack.enter_context(_models(record, run_id, choice, run_id)) if choice is not None else None
        verdict = decide(
            outcome,
            policy=chosen,
            source=given.source(stack),
            gold=gold_of(gold, None),
            lms=lms,
            bank=opened,
            purpose=purpose,
        )
        position = None if dry_run else opened.append(verdict.event(run_id)).last
    if as_json:
        say_json(verdict.as_dict() | {"run": run_id, "position": position, "findings": verdict.findings})
        return
    say(styled(_word(verdict.success), "green" if verdict.success else "red"))
    say(block(verdict.reason))
    fields({"judge": f"{verdict.judge}-{verdict.judge_version}", "purpose": purpose, "position": position})
    _tell_scripted(choice if verdict.kind == "lm" else None)


def _check_use(policy: JudgingPolicy, choice: LmChoice | None, gold: str | None, purpose: Purpose) -> None:
    """Raises `BadInput` for what is given and would not be used."""
    if choice is not None and policy.name != "lm":
        raise BadInput(f"the judging policy {policy.name} asks no model: leave out --judge-lm, or add --policy lm")
    if gold is not None and not gold.strip():
        raise BadInput("--gold holds no query")
    if gold is not None and purpose == "learning" and not policy.supervised:
        raise BadInput(
            "a right query judges for learning only under a policy that is supervised: add --purpose scoring"
        )


def _policy(bank: Bank, name: str | None) -> JudgingPolicy:
    from rbank_es.judging.judges import judging_policy
    from rbank_es.policies import CheckJudging, LmJudging

    with bank.as_of() as view:
        in_force = judging_policy(view)
    if name is None or in_force.name == name:
        return in_force
    return LmJudging() if name == "lm" else CheckJudging()


judge.params.append(debug_option())
judge.add_command(calibrate)
judge.add_command(run)
