"""Rows: the facts of each run of a trial, computed from the log of its bank and the suite alone.

A row is the same whenever it is computed: by the process that ran the trial, or years later from a copy of its log. All
other numbers of an experiment are computed from rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events import RunJudged, RunStarted
from rbank_es.events.run_events import Purpose, Trial, VerdictValue
from rbank_es.events.run_totals import known_sum
from rbank_es.judging.result_comparison import Kind
from rbank_es.lab.contamination import Contamination, contamination_of
from rbank_es.lab.quality_gates import Gate, broken_gates
from rbank_es.lab.trial_log import TrialLog
from rbank_es.law import BIRTHS, State
from rbank_es.loop.rollouts import Rollout, Spread, rollout_of, spread_of
from rbank_es.policies import selection_policy

if TYPE_CHECKING:
    from rbank_es.lab.task_suite import Suite
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.data_source import Source

Quality = Literal["exact", "superset", "subset", "wrong", "none"]
"""How the result relates to the right one: the same; with more rows or columns; with fewer; another; no result."""

MORE: frozenset[Kind] = frozenset({"extra_rows", "extra_columns"})
LESS: frozenset[Kind] = frozenset({"missing_rows", "missing_columns"})
ANTI_PATTERNS = frozenset(
    {"limit_below_all", "made_up_column", "name_for_thing", "untyped_variable", "ungrounded_query", "ungrounded_answer",
     "empty_result", "answer_without_result", "cut_result"}
)  # fmt: skip
"""Findings that a query or an answer is written badly, whatever its result."""


NO_RATINGS: Mapping[str, float] = {}


class TrialRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a trial. None is unknown, never 0.

    position        of its task among those of the trial, from 1
    verdict         the one that stands for learning;  score  that of the right answer
    quality         how its result relates to the right one; None if nobody scored it
    rubric          rating of its answer by a model, 0 to 1; see `rbank_es.lab.ratings`
    judged_rightly  whether the judge agrees with the right answer; None where either didn't decide
    anti_patterns   findings in its query and answer;  grounded_share  of the terms it named, those that exist
    duration_s      by the clock of the loop;  sizes ending in `chars` are characters
    items_injected  items in its largest context
    given           ids of the items that it was given in full, in the context or by a tool: the bank's uses
    items_added     ids of the items that were born of it, alone or with others
    items_in_bank   active items when it began
    contamination   how what it was given could hold the answer; see `rbank_es.lab.contamination`
    gates_broken    the quality gates that it breaks: it isn't counted then; see `rbank_es.lab.quality_gates`
    selected        whether it is the run that counts among the rollouts of its task;  rollouts  how many those are
    rollouts_right  how many of them the right answer passes; None unless all were scored
    diversity       how much they differ, 0 to 1
    """

    experiment: str
    condition: str
    order: int
    repetition: int
    position: int
    run: str
    task_id: str
    level: int | None
    family: str | None
    rollout: int
    selected: bool
    rollouts: int
    rollouts_right: int | None
    diversity: float | None
    outcome: str
    converged: bool
    verdict: VerdictValue | None
    score: VerdictValue | None
    quality: Quality | None
    rubric: float | None
    judged_rightly: bool | None
    anti_patterns: int | None
    grounded_share: float | None
    iterations: int
    lm_calls: int | None
    subcalls: int
    tool_calls: int
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    duration_s: float | None
    context_chars: int | None
    prompt_chars_max: int | None
    max_single_return: int | None
    large_returns: int
    stdout_chars: int | None
    variables_chars: int | None
    items_injected: int | None
    given: tuple[str, ...]
    items_added: tuple[str, ...]
    items_in_bank: int
    contamination: tuple[Contamination, ...]
    gates_broken: tuple[Gate, ...]
    scripted: bool

    @property
    def tokens(self) -> int | None:
        """The tokens of prompts and answers together."""
        return known_sum((self.tokens_in, self.tokens_out))

    @property
    def success(self) -> bool:
        """Whether the right answer says that it succeeded; a run that nobody scored did not."""
        return self.score == "success"

    @property
    def counted(self) -> bool:
        """Whether it stands for its task: it is the run of it that was selected, and breaks no gate."""
        return self.selected and not self.gates_broken


def rows_of(
    log: TrialLog, suite: Suite, source: Source | None = None, ratings: Mapping[str, float] = NO_RATINGS
) -> list[TrialRun]:
    """Return the rows of a trial, in the order in which its runs began.

    Runs of tasks that are not in the suite (a guide is written in such a run) have none. With a source, queries are
    checked for anti-patterns and terms that don't exist; only the source is asked, never a model. `ratings` are by the
    ids of the events that ended the runs.

    Raises `BadInput` for a run of another suite, or of two trials in one bank.
    """
    tasks, name = {task.id: task for task in suite.tasks}, log.bank.name
    known = _Known(log, tasks, ratings)
    rows = [known.row(started, tasks[started.task_id or ""], source) for started in known.ended]
    places = {(row.experiment, row.condition, row.order, row.repetition) for row in rows}
    if len(places) > 1:
        raise BadInput(f"{name} holds runs of {len(places)} trials: a trial has a bank of its own")
    # A run that names no suite is no error here: it breaks a quality gate.
    named = {started.suite for started in known.begun} - {None}
    if named - {suite.digest}:
        raise BadInput(f"{name} holds runs of the suite {min(map(str, named))[:12]}, not of {suite.digest[:12]}")
    return rows


class _Known:
    """The known runs of some tasks: `begun` in their order, and those that ended."""

    def __init__(self, log: TrialLog, tasks: Mapping[str, Task], ratings: Mapping[str, float]) -> None:
        self._log, self._state, self._ratings = log, log.state, ratings
        self.begun = [each for each in log.started.values() if each.task_id in tasks]
        self.ended = [each for each in self.begun if log.runs[each.run].end is not None]
        each_once = dict.fromkeys(str(each.task_id) for each in self.begun)
        self._positions = {task: at for at, task in enumerate(each_once, 1)}
        self._born = _born(log.state)
        self._groups = _groups(log)

    def row(self, started: RunStarted, task: Task, source: Source | None) -> TrialRun:
        """Return the row of one run."""
        run, events = started.run, self._log.runs[started.run]
        end, totals, trial = events.end, events.totals, started.trial or Trial(experiment="", condition="")
        assert end is not None, "the run has not ended"
        verdict, score = _verdict(self._state, run, "learning"), _verdict(self._state, run, "scoring")
        group = self._groups[task.id]
        scores = [one.scored for one in group.rollouts if one.scored is not None]
        anti_patterns, grounded = _checked(self._log, started, source)
        return TrialRun(
            experiment=trial.experiment,
            condition=trial.condition,
            order=trial.order,
            repetition=trial.repetition,
            position=self._positions[task.id],
            run=run,
            task_id=task.id,
            level=task.level,
            family=task.family,
            rollout=started.rollout_index or 0,
            selected=run == group.spread.best,
            rollouts=len(group.rollouts),
            rollouts_right=scores.count("success") if len(scores) == len(group.rollouts) else None,
            diversity=group.spread.diversity,
            outcome=end.outcome,
            converged=end.outcome == "submitted",
            verdict=verdict,
            score=score,
            quality=self._quality(run, end.outcome),
            rubric=self._ratings.get(end.id),
            judged_rightly=None if {verdict, score} & {None, "undecided"} else verdict == score,
            anti_patterns=anti_patterns,
            grounded_share=grounded,
            iterations=events.iterations,
            lm_calls=totals.lm_calls,
            subcalls=sum(call.role == "sub" for call in events.lm_calls),
            tool_calls=len(events.calls),
            tokens_in=totals.tokens_in,
            tokens_out=totals.tokens_out,
            cost_usd=totals.cost_usd,
            duration_s=end.duration_s,
            context_chars=max((each.chars for each in events.contexts), default=None),
            prompt_chars_max=_most(step.prompt_chars for step in events.steps),
            max_single_return=_most(call.chars for call in events.calls) if events.calls else 0,
            large_returns=sum((call.chars or 0) > limits.FLAG_RETURN_CHARS for call in events.calls),
            stdout_chars=known_sum(step.stdout_chars for step in events.steps),
            variables_chars=_most(step.variables_chars for step in events.steps),
            items_injected=max((len(each.items) for each in events.contexts), default=None),
            given=tuple(gift.item for gift in events.given),
            items_added=tuple(self._born.get(run, ())),
            items_in_bank=self._log.in_bank[run],
            contamination=contamination_of(self._state, task, events.shown, started.seq),
            gates_broken=broken_gates(started, events.context, self._scoring(run)),
            scripted=started.scripted,
        )

    def _scoring(self, run: str) -> RunJudged | None:
        standing = self._state.verdicts.get((run, "scoring"))
        judged = (each for each in self._log.runs[run].judgments if standing is not None and each.seq == standing.seq)
        return next((each for each in judged if isinstance(each, RunJudged)), None)

    def _quality(self, run: str, outcome: str | None) -> Quality | None:
        judged = self._scoring(run)
        if judged is None:
            return None
        if outcome != "submitted":
            return "none"
        kinds = {kind for kind in judged.evidence if kind in get_args(Kind)}
        if judged.verdict == "success":
            # The only difference with which a result passes is more columns.
            return "superset" if kinds else "exact"
        return "superset" if kinds and kinds <= MORE else "subset" if kinds and kinds <= LESS else "wrong"


def _verdict(state: State, run: str, purpose: Purpose) -> VerdictValue | None:
    standing = state.verdicts.get((run, purpose))
    return standing.verdict if standing is not None else None


def _most(sizes: Iterable[int | None]) -> int | None:
    """Return the largest of the sizes that are known, None where none is."""
    return max((size for size in sizes if size is not None), default=None)


def _born(state: State) -> dict[str, dict[str, None]]:
    """Return the items that were born of each run, by the decisions in force, in order."""
    born: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for (extraction, _), pair in state.pairs.items():
        if pair.action in BIRTHS and not pair.undone:
            for run in state.extractions[extraction].runs:
                born[run][pair.item] = None
    return born


class _Group(Struct, frozen=True):
    """The rollouts of a task that count: the latest group of them, or its latest run."""

    rollouts: tuple[Rollout, ...]
    spread: Spread


def _groups(log: TrialLog) -> dict[str, _Group]:
    """Return the rollouts of each task, by its id; a single run is a group of one."""
    latest: dict[str, list[RunStarted]] = {}
    for started in log.started.values():
        if log.runs[started.run].end is None or started.task_id is None:
            continue
        known = latest.get(started.task_id)
        same = known is not None and started.rollout_group and known[0].rollout_group == started.rollout_group
        latest[started.task_id] = [*known, started] if same and known is not None else [started]
    policy = selection_policy(log.state.policies.get("selection"))
    # By index, because a rollout that was run again replaces its first try.
    groups = ({one.rollout_index or 0: _rollout(log, one.run) for one in group}.values() for group in latest.values())
    return {task: _Group(tuple(group), spread_of([*group], policy)) for task, group in zip(latest, groups, strict=True)}


def _rollout(log: TrialLog, run: str) -> Rollout:
    return rollout_of(
        log.bank, log.runs[run], _verdict(log.state, run, "learning"), _verdict(log.state, run, "scoring")
    )


def _checked(log: TrialLog, started: RunStarted, source: Source | None) -> tuple[int | None, float | None]:
    """Return the number of anti-patterns of a run, and the share of its terms that exist."""
    from rbank_es.judging.checks import check
    from rbank_es.judging.run_outcome import outcome_from

    if source is None:
        return None, None
    events = log.runs[started.run]
    try:
        checked = check(outcome_from(log.bank, events), source)
    except JudgeFailed:
        # Unknown rather than 0: a run that could not be checked must not lower a mean.
        return None, None
    terms = checked.terms
    unknown = 0 if terms is None else len(terms.unknown_in_query) + len(terms.unknown_in_answer)
    share = None if terms is None or not terms.terms else max(0.0, 1 - unknown / terms.terms)
    return sum(each.code in ANTI_PATTERNS for each in checked.findings), share
