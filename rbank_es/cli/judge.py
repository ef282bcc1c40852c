"""`judge`: judge a run, or measure a judge on cases labelled by an expert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from rbank_es.bank import Bank
from rbank_es.bank.run_judgments import RankedJudgment, judgments_of, standing
from rbank_es.cli.shared.arguments import RegisteredName, begun_run, judges, open_whole
from rbank_es.cli.shared.command_registry import CommandGroup, command
from rbank_es.cli.shared.interruption import interruptible
from rbank_es.cli.shared.judge_sources import JudgeSources, asked_verdict, judge_source_options, models_of_judge
from rbank_es.cli.shared.output import (
    VERDICT_COLOURS,
    Cell,
    Progress,
    echo,
    echo_command,
    echo_fields,
    echo_json,
    echo_scripted,
    echo_table,
    safe_block,
    styled,
    warn,
)
from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events import RunJudged
from rbank_es.events.readable_text import count
from rbank_es.events.run_events import judge_label
from rbank_es.system.progress import reported

if TYPE_CHECKING:
    from rbank_es.judging.gold_answers import Gold
    from rbank_es.judging.judge_protocol import JudgingPolicy
    from rbank_es.judging.verdict import Verdict
    from rbank_es.law import StandingVerdict
    from rbank_es.models.model_choice import LmChoice


GOES_ON = "With --unjudged, the same command goes on from here"


@click.group("judge", cls=CommandGroup)
def judge() -> None:
    """Judge runs, or measure a judge on cases labelled by an expert.

    A judge is a set of deterministic checks, the right query of a task, or a model. Verdicts for learning feed the
    bank; verdicts for scoring only measure. Both commands print JSON with --json.
    """


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
            return "the same judge said the same before: no verdict was recorded"
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
        """Judge a run and record the verdict. Raises as `asked_verdict` does."""
        from rbank_es.judging.run_outcome import outcome_of

        outcome = outcome_of(self._bank, run)
        lms = models_of_judge(self._record, run, self.choice, run)
        given: dict[str, Any] = {"source": self._source, "gold": self._gold(outcome.task), "bank": self._bank}
        made = asked_verdict(outcome, self._name, lms, policy=self._policy, purpose=self._purpose, **given)
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
    from rbank_es.judging.gold_answers import gold_of

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


judge.add_commands(run)
