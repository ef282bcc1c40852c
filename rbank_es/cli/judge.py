"""`judge`: judge a run, or measure a judge on cases labelled by an expert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from rbank_es.bank import Bank
from rbank_es.bank.run_judgments import RankedJudgment, judgments_of, standing
from rbank_es.cli.shared.application import CommandGroup, command
from rbank_es.cli.shared.arguments import NumberRange, RegisteredName, begun_run, judges, open_at, open_whole
from rbank_es.cli.shared.interruption import interruptible
from rbank_es.cli.shared.judge_sources import JudgeSources, judge_source_options
from rbank_es.cli.shared.output import (
    VERDICT_COLOURS,
    Cell,
    Progress,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_json,
    echo_scripted,
    echo_table,
    safe_block,
    styled,
    warn,
)
from rbank_es.errors import BadInput, JudgeFailed, LmFailed
from rbank_es.events import RunJudged
from rbank_es.events.readable_text import count, safe_line
from rbank_es.events.run_events import judge_label
from rbank_es.state.proportion import percent
from rbank_es.system.progress import reported

if TYPE_CHECKING:
    from rbank_es.judging.calibration import Calibration, Case
    from rbank_es.judging.confidence import Threshold
    from rbank_es.judging.gold import Gold
    from rbank_es.judging.judge_protocol import JudgingPolicy
    from rbank_es.judging.run_outcome import RunOutcome
    from rbank_es.judging.verdict import Verdict
    from rbank_es.models.choice import LmChoice
    from rbank_es.models.run_models import Lms
    from rbank_es.state import StandingVerdict


GOES_ON = "With --unjudged, the same command goes on from here"


@click.group("judge", cls=CommandGroup)
def judge() -> None:
    """Judge runs, or measure a judge on cases labelled by an expert.

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
        lms = _models(scratch, "calibration", choice, case.id)
        # For scoring, where the right answer counts without a supervised policy.
        return _said(case.run, name, lms, source=source, gold=gold, bank=bank, purpose="scoring")

    return judged


def _models(bank: Bank | None, run: str, choice: LmChoice | None, task: str) -> Lms | None:
    """Return the model that a judge may ask, whose calls a bank records; None where none is chosen."""
    if bank is None or choice is None:
        return None
    from rbank_es.models.run_models import Lms

    return Lms(bank, run, {"judge": choice}, task=task)


def _said(outcome: RunOutcome, judge: str, lms: Lms | None, **options: Any) -> Verdict:
    """Return a judge's verdict. Raises `JudgeFailed` without one, `LmFailed` if no other run would have one either."""
    from rbank_es.judging.judges import decide
    from rbank_es.models.model_call import FATAL, STOPPING

    try:
        with lms or nullcontext():
            return decide(outcome, judge=judge, lms=lms, **options)
    except LmFailed as failure:
        # With a wrong key or address every later run would fail too; any other failure costs one verdict.
        if failure.code in STOPPING or failure.code in FATAL:
            raise
        raise JudgeFailed(judge, failure.message) from failure


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
    """Print the threshold of confidence and its trial; nothing if no verdict had a confidence."""
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
    if found.error is not None:
        tried = f"{found.found} of {found.resamples:,} random halves gave a threshold"
        echo(f"{tried}; on the other halves it accepted {found.coverage:.2f}, and {found.error:.3f} of that was wrong")


# ---------------------------------------------------------------- run


class Judged(NamedTuple):
    """A run with the new verdict and its position, and the verdicts that stood before and stand now.

    `repeated`: the same judge said the same before, at that position, and nothing was recorded now.
    """

    run: str
    verdict: Verdict
    position: int | None
    before: RankedJudgment | None
    stands: bool
    repeated: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs: `before` is the verdict that stood, or None, `stands` whether the new one does."""
        before = self.before and {"verdict": self.before.event.verdict, "judge": _judge_of(self.before)}
        facts = {"run": self.run, "position": self.position, "before": before, "stands": self.stands}
        return self.verdict.as_dict() | facts | {"repeated": self.repeated, "findings": self.verdict.findings}

    @property
    def note(self) -> str:
        """How the verdict relates to the one before; empty if there was none, or the same."""
        if self.repeated:
            return "the same judge said the same before: nothing was recorded"
        if self.before is None:
            return "" if self.stands else "recorded, and doesn't count: the policy is not supervised"
        stood = f"{self.before.event.verdict} by {_judge_of(self.before)}"
        if not self.stands:
            return f"{stood} stands: it has more authority, so this is recorded and changes nothing"
        return f"{stood} stood before" if self.before.event.verdict != self.verdict.verdict else ""


def _judge_of(judged: RankedJudgment) -> str:
    by = judge_label(judged.event.judge, judged.event.judge_version)
    return f"{by}{', a person' if judged.event.kind == 'human' else ''}"


@command(
    "run",
    "rbank-es judge run notes run-7 --ont model.ttl",
    "rbank-es judge run notes run-7 --ont model.ttl --gold 'SELECT …' --purpose scoring",
    "rbank-es judge run notes --unjudged --judge lm --judge-lm openai/gpt-4.1-mini --ont model.ttl",
)
@click.argument("bank")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All runs that ended by the agent's own doing.")
@click.option("--unjudged", is_flag=True, help="Of these, those without a verdict, or that nobody decided.")
@click.option("--since", metavar="POINT", help="Of these, those that began after a time or another point.")
@click.option(
    "--judge", "judge_name", type=RegisteredName(judges),
    help="Who judges; default: by the bank's policy.",
)  # fmt: skip
@click.option(
    "--gold", metavar="SPARQL", help="The right query. It judges for learning only under a supervised policy."
)
@click.option("--tasks", "tasks_file", metavar="FILE", help="Tasks with right answers, found by the runs' questions.")
@click.option(
    "--purpose", type=click.Choice(["learning", "scoring"]), default="learning", show_default=True,
    help="The use of the verdict.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Write nothing to the bank, not even model calls.")
@judge_source_options
def run(bank: str, runs: tuple[str, ...], dry_run: bool, as_json: bool, **given: Any) -> None:
    """Judge runs of a bank from their own events, and record the verdicts.

    The latest verdict of the highest authority stands: a person's, the right answer's and the outcome's, a check's that
    is sure, a model's. A weaker one is recorded and changes nothing. What the same judge said before, in the same
    words, is not recorded again. Exits with 1 if a run was left without a verdict.
    """
    options = {name: given.pop(name) for name in JudgeSources._fields}
    with ExitStack() as stack:
        opened = stack.enter_context(open_whole(bank))
        chosen = _chosen(opened, runs, given)
        # Model calls are recorded wherever they are made: in a dry run, in a bank that is thrown away.
        record = stack.enter_context(Bank.create("memory:")) if dry_run else opened
        judging = _Judging(opened, record, given, JudgeSources(**options), stack)
        done, left = list[Judged](), dict[str, str]()
        kept = interruptible(lambda: f"Kept: {0 if dry_run else len(done)} of {count(len(chosen), 'verdict')}", GOES_ON)
        with kept, Progress("judging") as progress:
            for run_id in reported(chosen, progress):
                try:
                    done.append(judging.judge(run_id))
                except JudgeFailed as failed:
                    left[run_id] = failed.reason
        due = bool(opened.state().due)
    if as_json:
        echo_json({"runs": [each.as_dict() for each in done], "unjudged": left})
    else:
        _print_judged(done, chosen)
        if any(each.stands and each.note and not each.repeated for each in done) and due:
            echo("what was learned from these follows the verdicts; the rest is decided again by:")
            echo_command(f"correct {bank}")
        if judging.choice is not None and judging.choice.scripted and any(each.verdict.kind == "lm" for each in done):
            echo_scripted()
    for run_id, why in left.items():
        warn(f"{run_id} has no verdict: {why}")
    if left:
        click.get_current_context().exit(1)


def _chosen(bank: Bank, named: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """Return the ids of the runs to judge, in the order in which they began. Raises `BadInput` where none is chosen."""
    from rbank_es.judging.run_outcome import is_agents_own

    picked = [
        flag for name, flag in (("every", "--all"), ("unjudged", "--unjudged"), ("since", "--since")) if given[name]
    ]
    if named and picked:
        raise BadInput(f"name runs, or choose them with {picked[0]}, not both")
    if named:
        return list(dict.fromkeys(begun_run(bank, each) for each in named))
    if not picked:
        raise BadInput("no run is named: name one, or choose runs with --all, --unjudged or --since")
    if given["every"] and len(picked) > 1:
        raise BadInput(f"--all and {picked[1]} exclude each other: leave one out")
    after = bank.resolve(given["since"]) if given["since"] is not None else 0
    state = bank.state()
    # Leave out runs that failed from outside: their end says nothing about the agent.
    own = (
        run
        for run, known in state.runs.items()
        if known.outcome is not None and is_agents_own(known.outcome, known.error_code) and known.started_seq > after
    )
    return [run for run in own if not given["unjudged"] or _is_open(state.verdicts.get((run, given["purpose"])))]


def _is_open(standing: StandingVerdict | None) -> bool:
    return standing is None or (standing.verdict == "undecided" and standing.kind != "human")


class _Judging:
    """The judge of one command with all that it may use."""

    def __init__(
        self, bank: Bank, record: Bank, given: Mapping[str, Any], sources: JudgeSources, stack: ExitStack
    ) -> None:
        from rbank_es.judging.judges import policy_for

        self._bank, self._record, self._purpose = bank, record, given["purpose"]
        self.choice = sources.choice()
        self._name, self._policy = policy_for(bank, given["judge_name"])
        _check_use(self._name, self._policy, self.choice, given)
        self._gold = _right_answers(given)
        self._source = sources.source(stack, bank)

    def judge(self, run: str) -> Judged:
        """Judge a run and record the verdict. Raises as `_said` does."""
        from rbank_es.judging.run_outcome import outcome_of

        outcome = outcome_of(self._bank, run)
        lms = _models(self._record, run, self.choice, run)
        given: dict[str, Any] = {"source": self._source, "gold": self._gold(outcome.task), "bank": self._bank}
        made = _said(outcome, self._name, lms, policy=self._policy, purpose=self._purpose, **given)
        return self._recorded(run, made)

    def _recorded(self, run: str, made: Verdict) -> Judged:
        event = made.event(run)
        *judged, new = judgments_of(self._bank, run, then=event)
        before = standing(judgments_of(self._bank, run), self._purpose)
        known = self._said_before(judged, event)
        holds = before is not None and before.event.seq == known
        # What was said before is recorded again only if that changes which verdict stands.
        if known is not None and (holds or not new.stands):
            return Judged(run, made, known, before, holds, repeated=True)
        if self._record is not self._bank:
            return Judged(run, made, None, before, new.stands)
        position = self._bank.append(event).last
        now = standing(judgments_of(self._bank, run), self._purpose)
        return Judged(run, made, position, before, stands=now is not None and now.event.seq == position)

    def _said_before(self, judged: Iterable[RankedJudgment], event: RunJudged) -> int | None:
        """Return the position of the latest judgment by the same judge, if it says the same on the same evidence."""
        from rbank_es.log.groups import same_content

        whose = (event.judge, event.judge_version, event.purpose)
        own = [each.event for each in judged if isinstance(each.event, RunJudged)]
        own = [each for each in own if (each.judge, each.judge_version, each.purpose) == whose]
        if not own:
            return None
        last = self._bank.event_at(own[-1].seq, resolve=True)
        # The calls are others each time; they say how the judge came to it, not what it said.
        return last.seq if same_content(replace(last, calls=event.calls), event) else None


def _right_answers(given: Mapping[str, Any]) -> Callable[[str], Gold | None]:
    """Return the function from a question to its right answer, None if it has none."""
    from rbank_es.judging.gold import gold_of

    if given["tasks_file"] is None:
        known = gold_of(given["gold"], None)
        return lambda question: known
    from rbank_es.loop.tasks import load_tasks

    tasks = load_tasks(given["tasks_file"])
    answers = {task.question: gold_of(task.gold_sparql, task.answer, task.ordered) for task in tasks}
    return answers.get


def _print_judged(done: Sequence[Judged], chosen: Sequence[str]) -> None:
    if len(chosen) == 1 and done:
        [only] = done
        echo(styled(only.verdict.verdict, VERDICT_COLOURS[only.verdict.verdict]))
        echo(safe_block(only.verdict.reason))
        confidence = None if only.verdict.confidence is None else f"{only.verdict.confidence:.2f}"
        facts: dict[str, Cell] = {
            "judge": judge_label(only.verdict.judge, only.verdict.judge_version),
            "confidence": confidence,
        }
        echo_fields(facts | {"purpose": only.verdict.purpose, "position": only.position, "note": only.note or None})
        return
    rows: list[list[Cell]] = [
        [
            each.run,
            each.verdict.verdict,
            judge_label(each.verdict.judge, each.verdict.judge_version),
            each.note,
            each.verdict.reason,
        ]
        for each in done
    ]
    if rows:
        echo_table(["run", "verdict", "judge", "note", "reason"], rows, flexible=["reason", "note"])
    verdicts = Counter(each.verdict.verdict for each in done)
    weaker = sum(each.repeated or not each.stands for each in done)
    counts = [f"{number} {word}" for word, number in verdicts.items()]
    echo(", ".join([count(len(chosen), "run"), *counts, *([f"{weaker} of them changed nothing"] if weaker else [])]))


def _check_use(name: str, policy: JudgingPolicy, choice: LmChoice | None, given: Mapping[str, Any]) -> None:
    """Raise `BadInput` for an option that would not be used, or that lacks another."""
    from rbank_es.judging.judges import needs_of

    if choice is not None and "model" not in needs_of(name):
        raise BadInput(f"the judge {name} calls no model: leave out --judge-lm, or add --judge lm")
    if given["gold"] is not None and not given["gold"].strip():
        raise BadInput("--gold holds no query")
    if given["gold"] is not None and given["tasks_file"] is not None:
        raise BadInput("--gold is the right query of all runs, --tasks has one for each: leave one out")
    right = given["gold"] is not None or given["tasks_file"] is not None
    if right and given["purpose"] == "learning" and not policy.supervised:
        raise BadInput(
            "a right query judges for learning only under a policy that is supervised: add --purpose scoring"
        )
    if "gold" in needs_of(name) and not right:
        raise BadInput(f"the judge {name} compares with the right answer: give --gold SPARQL or --tasks FILE")


judge.add_commands(calibrate, run)
