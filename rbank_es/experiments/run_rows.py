"""Rows: the facts of each run of a trial, computed from the log of its bank and the suite alone.

A row is the same whenever it is computed: by the process that ran the trial, or years later from a copy of its log. All
other numbers of an experiment are computed from rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct

from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events import ContextBuilt, MemoriesRead, RunFinished, RunJudged, RunStarted
from rbank_es.events.run_events import Trial, VerdictValue
from rbank_es.experiments.contamination import Contamination, contamination_of
from rbank_es.experiments.quality_gates import Gate, broken_gates
from rbank_es.judging.result_comparison import Kind
from rbank_es.loop.rollouts import Rollout, Spread, spread_of
from rbank_es.policies import selection_policy
from rbank_es.state import BIRTHS, RELEVANT, LiveState, State, active

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.experiments.suite import Suite
    from rbank_es.loop.tasks import Task
    from rbank_es.projections.view import View
    from rbank_es.sparql.source import Source

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


class RunRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a trial. None is unknown, never 0.

    position        of its task among those of the trial, from 1
    verdict         the one that stands for learning;  scored  that of the right answer
    quality         how its result relates to the right one; None if nobody scored it
    rubric          rating of its answer by a model, 0 to 1; see `rbank_es.experiments.ratings`
    judged_rightly  whether the judge agrees with the right answer; None where either didn't decide
    anti_patterns   findings in its query and answer;  grounded_share  of the terms it named, those that exist
    seconds         by the clock of the loop;  sizes ending in `chars` are characters
    items_injected  ids of the items that it was given, in the context or by a tool
    items_added     items that were born of it;  items_in_bank  active items when it began
    contamination   how what it was given could hold the answer; see `rbank_es.experiments.contamination`
    gates_broken    the quality gates that it breaks: it isn't counted then; see `rbank_es.experiments.quality_gates`
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
    task: str
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
    scored: VerdictValue | None
    quality: Quality | None
    rubric: float | None
    judged_rightly: bool | None
    anti_patterns: int | None
    grounded_share: float | None
    iterations: int
    lm_calls: int
    subcalls: int
    tool_calls: int
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    seconds: float | None
    context_chars: int | None
    prompt_chars_max: int | None
    max_single_return: int | None
    large_returns: int
    stdout_chars: int | None
    variables_chars: int | None
    memory_items_injected: int | None
    items_injected: tuple[str, ...]
    items_added: int
    items_in_bank: int
    contamination: tuple[Contamination, ...]
    gates_broken: tuple[Gate, ...]
    simulated: bool
    scripted: bool

    @property
    def success(self) -> bool:
        """Whether the right answer says that it succeeded; a run that nobody scored did not."""
        return self.scored == "success"

    @property
    def counted(self) -> bool:
        """Whether it counts in metrics: it is the run of its task that counts, and breaks no gate."""
        return self.selected and not self.gates_broken


def rows_of(
    bank: Bank, suite: Suite, source: Source | None = None, ratings: Mapping[str, float] = NO_RATINGS
) -> list[RunRow]:
    """Return the rows of a trial's bank, in the order in which its runs began.

    Runs of tasks that are not in the suite (a guide is written in such a run) have none. With a source, queries are
    checked for anti-patterns and terms that don't exist; only the source is asked, never a model. `ratings` are by the
    ids of the events that ended the runs.

    Raises `BadInput` for a run of another suite, or of two trials in one bank.
    """
    tasks = {task.id: task for task in suite.tasks}
    with bank.as_of() as view:
        known = _Known(bank, view, ratings)
        rows = [known.row(started, tasks[started.task_id or ""], source) for started in known.runs_of(tasks)]
    places = {(row.experiment, row.condition, row.order, row.repetition) for row in rows}
    if len(places) > 1:
        raise BadInput(f"{bank.name} holds runs of {len(places)} trials: a trial has a bank of its own")
    named = {started.suite for started in known.started.values() if started.task_id in tasks} - {None}
    if named - {suite.digest}:
        raise BadInput(f"{bank.name} holds runs of the suite {min(map(str, named))[:12]}, not of {suite.digest[:12]}")
    return rows


class _Known:
    """What a bank knows of its runs, read once."""

    def __init__(self, bank: Bank, view: View, ratings: Mapping[str, float]) -> None:
        self._bank, self._ratings = bank, dict[str, float | None]()
        self.started = {e.run: e for e in reversed([*bank.events(types={"run_started"})]) if isinstance(e, RunStarted)}
        self._totals = {row["run"]: row for row in view.rows("runs")}
        self._sizes = {row["run"]: row for row in view.rows("leakage_by_run")}
        self._given: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._contexts: dict[str, ContextBuilt] = {}
        self._judged: dict[int, RunJudged] = {}
        for event in bank.events(types={"context_built", "memories_read", "run_finished", "run_judged"}):
            match event:
                case ContextBuilt(run=run, items=items):
                    self._contexts[run] = event
                    self._given[run].update(dict.fromkeys(items))
                case MemoriesRead(run=run, ids=ids):
                    self._given[run].update(dict.fromkeys(ids))
                case RunFinished(run=run, id=id):
                    self._ratings[run] = ratings.get(id)
                case RunJudged(seq=seq):
                    self._judged[seq] = event
        self._in_bank, self.state = _grown(bank)
        self._born = _born(self.state)
        self._positions: dict[str, int] = {}
        self._groups = _groups(bank, self._totals.values())

    def runs_of(self, tasks: Mapping[str, Task]) -> list[RunStarted]:
        """Return the beginnings of the runs of some tasks that have ended, and number the tasks."""
        ours = sorted((each for each in self.started.values() if each.task_id in tasks), key=lambda each: each.seq)
        for each in ours:
            self._positions.setdefault(str(each.task_id), len(self._positions) + 1)
        return [each for each in ours if self._totals[each.run]["outcome"] is not None]

    def row(self, started: RunStarted, task: Task, source: Source | None) -> RunRow:
        """Return the row of one run."""
        run, total, sizes = started.run, self._totals[started.run], self._sizes[started.run]
        trial = started.trial or Trial(experiment="", condition="")
        verdict, scored = self._verdict(run, "learning"), self._verdict(run, "scoring")
        given, group = tuple(self._given[run]), self._groups[task.id]
        scores = [one.scored for one in group.rollouts if one.scored is not None]
        anti_patterns, grounded = _checked(self._bank, run, source) if not started.simulated else (None, None)
        return RunRow(
            experiment=trial.experiment,
            condition=trial.condition,
            order=trial.order,
            repetition=trial.repetition,
            position=self._positions[task.id],
            run=run,
            task=task.id,
            level=task.level,
            family=task.family,
            rollout=started.rollout_index or 0,
            selected=run == group.spread.best,
            rollouts=len(group.rollouts),
            rollouts_right=scores.count("success") if len(scores) == len(group.rollouts) else None,
            diversity=group.spread.diversity,
            outcome=total["outcome"],
            converged=total["outcome"] == "submitted",
            verdict=verdict,
            scored=scored,
            quality=self._quality(run, total["outcome"]),
            rubric=self._ratings.get(run),
            judged_rightly=None if {verdict, scored} & {None, "undecided"} else verdict == scored,
            anti_patterns=anti_patterns,
            grounded_share=grounded,
            iterations=total["iterations"],
            lm_calls=total["lm_calls"] or 0,
            subcalls=sizes["subcalls"],
            tool_calls=total["tool_calls"],
            tokens_in=total["tokens_in"],
            tokens_out=total["tokens_out"],
            cost_usd=total["cost_usd"],
            seconds=total["duration_s"],
            context_chars=sizes["context_size"],
            prompt_chars_max=sizes["prompt_chars_max"],
            max_single_return=sizes["max_single_return"],
            large_returns=sizes["large_returns"],
            stdout_chars=sizes["stdout_chars"],
            variables_chars=sizes["variables_chars"],
            memory_items_injected=sizes["memory_items_injected"],
            items_injected=given,
            items_added=self._born[run],
            items_in_bank=self._in_bank[run],
            contamination=contamination_of(self.state, task, given, started.seq),
            gates_broken=broken_gates(started, self._contexts.get(run), self._scoring(run)),
            simulated=started.simulated,
            scripted=started.scripted,
        )

    def _verdict(self, run: str, purpose: str) -> VerdictValue | None:
        standing = self.state.verdicts.get((run, purpose))
        return standing.verdict if standing is not None else None

    def _scoring(self, run: str) -> RunJudged | None:
        standing = self.state.verdicts.get((run, "scoring"))
        return self._judged.get(standing.seq) if standing is not None else None

    def _quality(self, run: str, outcome: str) -> Quality | None:
        judged = self._scoring(run)
        if judged is None:
            return None
        if outcome != "submitted":
            return "none"
        kinds = {kind for kind in judged.evidence if kind in get_args(Kind)}
        if judged.verdict == "success":
            return "superset" if kinds else "exact"
        return "superset" if kinds and kinds <= MORE else "subset" if kinds and kinds <= LESS else "wrong"


def _grown(bank: Bank) -> tuple[dict[str, int], State]:
    """Return how many items were active when each run began, and the state at the end."""
    live, sizes = LiveState(), dict[str, int]()
    for event in bank.log.read(types=RELEVANT, resolve=RELEVANT):
        if isinstance(event, RunStarted):
            sizes.setdefault(event.run, len(active(live.state)))
        live.advance([event])
    return sizes, live.state


def _born(state: State) -> Counter[str]:
    """Return how many items were born of each run, by the decisions in force."""
    born = Counter[str]()
    for (extraction, _), pair in state.pairs.items():
        if pair.action in BIRTHS and not pair.undone:
            born.update(dict.fromkeys(state.extractions[extraction].runs, 1))
    return born


class _Group(Struct, frozen=True):
    """The rollouts of a task that count: the latest group of them, or its latest run."""

    rollouts: tuple[Rollout, ...]
    spread: Spread


def _groups(bank: Bank, totals: Iterable[Mapping[str, Any]]) -> dict[str, _Group]:
    """Return the rollouts of each task, by its id; a single run is a group of one."""
    latest: dict[str, list[Mapping[str, Any]]] = {}
    for row in totals:
        if row["outcome"] is None or row["task_id"] is None:
            continue
        known = latest.get(row["task_id"])
        same = known is not None and row["rollout_group"] and known[0]["rollout_group"] == row["rollout_group"]
        latest[row["task_id"]] = [*known, row] if same and known is not None else [row]
    policy = selection_policy(bank.policy_choice("selection"))
    groups = ({row["rollout_index"] or 0: _rollout(row) for row in rows}.values() for rows in latest.values())
    return {task: _Group(tuple(group), spread_of([*group], policy)) for task, group in zip(latest, groups, strict=True)}


def _rollout(row: Mapping[str, Any]) -> Rollout:
    return Rollout(
        index=row["rollout_index"] or 0,
        run=row["run"],
        outcome=row["outcome"],
        verdict=row["verdict"],
        scored=row["score"],
        iterations=row["iterations"],
        answer=row["answer"] or "",
        sparql=row["sparql"] or "",
    )


def _checked(bank: Bank, run: str, source: Source | None) -> tuple[int | None, float | None]:
    """Return the number of anti-patterns of a run, and the share of its terms that exist."""
    from rbank_es.judging.checks import check
    from rbank_es.judging.run_outcome import outcome_of

    if source is None:
        return None, None
    try:
        checked = check(outcome_of(bank, run), source)
    except JudgeFailed:
        return None, None
    terms = checked.terms
    unknown = 0 if terms is None else len(terms.unknown_in_query) + len(terms.unknown_in_answer)
    share = None if terms is None or not terms.terms else max(0.0, 1 - unknown / terms.terms)
    return sum(each.code in ANTI_PATTERNS for each in checked.findings), share
