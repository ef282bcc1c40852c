"""The probability that a verdict is wrong, from the verdicts of the same bank that a higher authority checked. Pure.

A logistic regression with priors. The log odds of an error begin at the prior of the kind of judge and the value. They
are shifted by:

- the judge; the judge with this value; the judge in this family of tasks;
- how far the confidence and the level of the task lie from the judge's usual ones;
- how late it judged;
- for one of several models, how many more runs it passes than the others: it is then taken to err more with its
  successes and less with its failures.

Each shift is fitted to the checked verdicts. A normal prior draws it towards its mean, because few checks prove little.
Every other judge of the run then shifts the odds by its own error, as if judges erred independently: agreement never
raises the doubt, disagreement never lowers it. People tend to check what looks wrong, so a judge is rather better than
its record says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import exp, log

from msgspec import Struct

from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.run_events import Purpose, VerdictValue, judge_label
from rbank_es.law.bank_state import RunState, StandingVerdict

PRIORS: Mapping[tuple[str, VerdictValue], float] = {
    # The earlier work on reasoning banks checked its judging model against gold queries: it was right on 44 % of the
    # runs, and 5 of its 6 errors were successes. So a success was wrong in 56 %, a failure in a fifth of that. These
    # were few runs: they count a third, in log odds, and an error of 20 % with either value the rest (source: Zheng et
    # al., Judging LLM-as-a-Judge, arXiv:2306.05685: strong models agree with people on over 80 %).
    ("lm", "success"): 0.30,
    ("lm", "failure"): 0.17,
    # Assumed: a check that isn't sure knows no more than a coin, which is why any model outranks it.
    ("check", "success"): 0.5,
    ("check", "failure"): 0.5,
    # Assumed: the right answer may itself be wrong or outdated.
    ("gold", "success"): 0.05,
    ("gold", "failure"): 0.05,
    # Assumed: tests may be incomplete, and fail for a cause outside the run.
    ("outcome", "success"): 0.05,
    ("outcome", "failure"): 0.05,
    ("human", "success"): 0.0,
    ("human", "failure"): 0.0,
}
"""The probability that a verdict is wrong before any verdict of its judge was checked, by kind and value."""

SURE_PRIOR = 0.05
"""That of a failure of which a check is sure. Assumed: a run that didn't converge may still hold the right answer."""

SPREADS: Mapping[str, float] = {
    "judge": 1.0, "value": 1.0, "family": 1.0, "confidence": 2.0, "level": 0.35, "time": 0.7
}  # fmt: skip
"""Standard deviations of the shifts, in log odds: of confidence for each of its log odds; of level for each level; of
time from the middle of a judge's verdicts to the first or the last. At 1, four checked verdicts weigh as much as a
prior of one half: few, because the prior comes from other banks. Wider for confidence, because judges differ most in
whether a low one goes with errors. Chosen on simulated banks: see `benchmarks/review_order.py`."""

CONFIDENCE_TRUST = 0.25
"""Log odds by which the doubt falls for each of the confidence, before any check. Models state too extreme confidences
(source: Xiong et al., Can LLMs Express Their Uncertainty?, arXiv:2306.13063). Chosen as `SPREADS`."""

LENIENCY_TRUST = 0.75
"""Log odds by which the doubt of a success rises, and that of a failure falls, where a model's odds to pass a run
lie 1 above those of all models here. It would be about 1 if all of them judged runs of the same kind, and they may not
have. Chosen as `SPREADS`."""

LENIENCY_RUNS = 4
"""Runs that each model is taken to have judged besides as all of them do, because the odds of few runs are extreme."""

LEAST_PROBABILITY = 0.01
"""No probability is closer to 0 or 1, because no few verdicts can show more."""

PRECISION = 0.001
"""Log odds below which a change of a shift ends the fit."""

ROUNDS_MOST = 500
"""Rounds of the fit, should it not have ended: random banks took 20 to 150."""


Judge = tuple[str, str]
"""A judge: its name with its version, as in `lm-1`, and its kind."""

Shift = tuple[str, Judge, str]
"""What shifts the log odds: a name of `SPREADS`, the judge, and the value or the family (empty for neither)."""


class Opinion(Struct, frozen=True, kw_only=True):
    """The latest decided verdict of one judge on one run. `judge` has its version, as in `lm-1`; `family` is that of
    the run's task, else the task, and `level` that of the task; None where none was recorded."""

    judge: str
    kind: str
    verdict: VerdictValue
    purpose: Purpose
    sure: bool = False
    confidence: float | None = None
    family: str | None = None
    level: int | None = None
    seq: int

    @classmethod
    def of(
        cls, judged: RunJudged | JudgmentOverruled | StandingVerdict, purpose: Purpose, run: RunState | None
    ) -> Opinion:
        """Return the opinion of a judgment, or of one that stands, on a run."""
        return cls(
            judge=judge_label(judged.judge, judged.judge_version),
            kind=judged.kind,
            verdict=judged.verdict,
            purpose=purpose,
            sure=judged.sure,
            confidence=judged.confidence,
            family=family_of(run),
            level=None if run is None else run.level,
            seq=judged.seq,
        )

    @property
    def by(self) -> Judge:
        """The judge."""
        return self.judge, self.kind


class FamilyChecks(Struct, frozen=True, kw_only=True):
    """Verdicts of one judge in one family that were checked, and the wrong ones."""

    family: str
    checked: int
    wrong: int


class JudgeRecord(Struct, frozen=True, kw_only=True):
    """The verdicts of one value by one judge: how many somebody with more authority checked, how many were wrong.

    `confidence` is the mean of those that state one, `level` that of the tasks that have one, None without any. `prior`
    is explained at `PRIORS`, `leniency` at `LENIENCY_TRUST`; `first` and `last` are positions of verdicts.
    """

    judge: str
    kind: str
    verdict: VerdictValue
    prior: float
    checked: int = 0
    wrong: int = 0
    confidence: float | None = None
    level: float | None = None
    leniency: float = 0.0
    first: int
    last: int


class Doubt(Struct, frozen=True, kw_only=True):
    """The probability that a verdict is wrong, and its grounds: see the module.

    `error` is that of the judge alone. `family` has the other checked verdicts of this judge in the run's family, None
    without any.
    """

    probability: float
    error: float
    record: JudgeRecord
    confidence: float | None = None
    family: FamilyChecks | None = None
    against: tuple[Opinion, ...] = ()
    agreeing: tuple[Opinion, ...] = ()


class ErrorModel(Struct, frozen=True, kw_only=True):
    """The errors of a bank's judges: their records by judge and value, what was checked by judge and family, and the
    fitted shifts, in log odds."""

    records: Mapping[tuple[Judge, VerdictValue], JudgeRecord]
    families: Mapping[tuple[Judge, str], FamilyChecks]
    shifts: Mapping[Shift, float]

    def error(self, opinion: Opinion) -> float:
        """Return the probability that a verdict is wrong, other judges of the run left out."""
        record = self.record(opinion)
        shifts = _shifts_of(opinion, record, _place(opinion, record))
        shifted = sum(self.shifts.get(shift, 0.0) * by for shift, by in shifts.items())
        return _share(_expected(opinion, record) + shifted)

    def record(self, opinion: Opinion) -> JudgeRecord:
        """Return the record of a verdict's judge for its value; that of this verdict alone if the model knows none."""
        return self.records.get((opinion.by, opinion.verdict)) or _record([(opinion, None)])

    def doubt(self, given: Opinion, others: Iterable[Opinion]) -> Doubt:
        """Return the probability that a verdict is wrong, given the verdicts of other judges on the same run."""
        error = self.error(given)
        odds = _log_odds(error)
        against, agreeing = list[Opinion](), list[Opinion]()
        for each in sorted(others, key=lambda other: other.seq):
            # A judge that is worse than a coin is no evidence, rather than evidence for the opposite of its verdict.
            evidence = min(0.0, _log_odds(self.error(each)))
            odds = odds + evidence if each.verdict == given.verdict else odds - evidence
            (agreeing if each.verdict == given.verdict else against).append(each)
        return Doubt(
            probability=_share(odds),
            error=error,
            record=self.record(given),
            confidence=given.confidence,
            family=self._others_in_family(given, [*against, *agreeing]),
            against=tuple(against),
            agreeing=tuple(agreeing),
        )

    def _others_in_family(self, given: Opinion, others: Iterable[Opinion]) -> FamilyChecks | None:
        found = self.families.get((given.by, given.family or ""))
        above = _checking(given, max(others, key=_weight, default=None))
        if found is None or above is None:
            return found
        rest, wrong = found.checked - 1, found.wrong - (above.verdict != given.verdict)
        return FamilyChecks(family=found.family, checked=rest, wrong=wrong) if rest else None


# ---------------------------------------------------------------- records


def opinions_of(
    judgments: Iterable[RunJudged | JudgmentOverruled], runs: Mapping[str, RunState] | None = None
) -> Mapping[str, Mapping[Judge, Opinion]]:
    """Return the latest verdict of each judge, unless it is undecided, by run and judge; `runs` tell of the tasks."""
    found: defaultdict[str, dict[Judge, Opinion]] = defaultdict(dict)
    for event in judgments:
        opinion = Opinion.of(event, event.purpose, (runs or {}).get(event.run))
        if opinion.verdict == "undecided":
            found[event.run].pop(opinion.by, None)
        else:
            found[event.run][opinion.by] = opinion
    return found


def family_of(run: RunState | None) -> str | None:
    """Return the family of a run's task, else the task: where the same errors may come again."""
    return None if run is None else run.family or run.task_id


def fitted(opinions: Mapping[str, Mapping[Judge, Opinion]]) -> ErrorModel:
    """Return the errors of the judges, from their verdicts by run and judge.

    A verdict is checked where a judge of a higher authority decided about the same run, for learning or for scoring:
    the verdict of the highest, of equals the latest, is taken to be right.
    """
    cases: defaultdict[tuple[Judge, VerdictValue], list[_Case]] = defaultdict(list)
    checked, wrong = Counter[tuple[Judge, str]](), Counter[tuple[Judge, str]]()
    for of_run in opinions.values():
        best = max(of_run.values(), key=_weight, default=None)
        for each in of_run.values():
            above = _checking(each, best)
            cases[each.by, each.verdict].append((each, above))
            if above is not None and each.family is not None:
                checked[each.by, each.family] += 1
                wrong[each.by, each.family] += each.verdict != above.verdict
    leniency = _leniency({key: len(each) for key, each in cases.items()})
    records = {key: _record(each, leniency.get(key[0], 0.0)) for key, each in cases.items()}
    return ErrorModel(
        records=records,
        families={
            key: FamilyChecks(family=key[1], checked=number, wrong=wrong[key]) for key, number in checked.items()
        },
        shifts=_fit(_rows(cases, records)),
    )


_Case = tuple[Opinion, Opinion | None]
"""A verdict and the one that checked it."""


def _leniency(verdicts: Mapping[tuple[Judge, VerdictValue], int]) -> dict[Judge, float]:
    """Return by how many log odds each model passes runs more often than all models do."""
    models = dict.fromkeys(by for by, _ in verdicts if by[1] == "lm")
    passed = {by: verdicts.get((by, "success"), 0) for by in models}
    failed = {by: verdicts.get((by, "failure"), 0) for by in models}
    all_passed, all_failed = sum(passed.values()), sum(failed.values())
    if not (all_passed and all_failed):
        return {}
    share = all_passed / (all_passed + all_failed)
    more, less = LENIENCY_RUNS * share, LENIENCY_RUNS * (1 - share)
    return {by: log((passed[by] + more) / (failed[by] + less) * all_failed / all_passed) for by in models}


def _record(cases: list[_Case], leniency: float = 0.0) -> JudgeRecord:
    latest = max((given for given, _ in cases), key=lambda each: each.seq)
    stated = [given.confidence for given, _ in cases if given.confidence is not None]
    levels = [given.level for given, _ in cases if given.level is not None]
    return JudgeRecord(
        judge=latest.judge,
        kind=latest.kind,
        verdict=latest.verdict,
        prior=_prior(latest),
        checked=sum(above is not None for _, above in cases),
        wrong=sum(above is not None and above.verdict != given.verdict for given, above in cases),
        confidence=sum(stated) / len(stated) if stated else None,
        level=sum(levels) / len(levels) if levels else None,
        leniency=leniency,
        first=min(given.seq for given, _ in cases),
        last=latest.seq,
    )


def _weight(opinion: Opinion) -> tuple[int, int]:
    """Return the place of a verdict among those on its run: the highest authority comes first, of equals the latest."""
    return _authority(opinion), opinion.seq


def _checking(given: Opinion, best: Opinion | None) -> Opinion | None:
    """Return the best verdict on a run, if its authority is above that of the one given."""
    return best if best is not None and _authority(best) > _authority(given) else None


def _authority(opinion: Opinion) -> int:
    """Return the authority of a verdict as evidence: here the right answer counts whatever it may teach."""
    if opinion.kind == "check":
        return 3 if opinion.sure and opinion.verdict == "failure" else 1
    return {"human": 5, "gold": 4, "outcome": 4, "lm": 2}[opinion.kind]


def _prior(opinion: Opinion) -> float:
    sure = opinion.kind == "check" and opinion.sure and opinion.verdict == "failure"
    return SURE_PRIOR if sure else PRIORS[opinion.kind, opinion.verdict]


# ---------------------------------------------------------------- the regression


class _Row(Struct):
    """Checked verdicts that are alike: their number, the wrong ones, their log odds so far, and what shifts these."""

    expected: float
    shifts: Mapping[Shift, float]
    checked: int = 0
    wrong: int = 0


def _rows(
    cases: Mapping[tuple[Judge, VerdictValue], list[_Case]], records: Mapping[tuple[Judge, VerdictValue], JudgeRecord]
) -> list[_Row]:
    found: dict[object, _Row] = {}
    for key, of_judge in cases.items():
        for given, above in of_judge:
            if above is None:
                continue
            # To a tenth, so that the cost of the fit doesn't grow with every verdict.
            tenth = None if given.confidence is None else round(given.confidence, 1)
            place = round(_place(given, records[key]), 1)
            alike = Opinion(
                judge=given.judge, kind=given.kind, verdict=given.verdict, purpose="learning", sure=given.sure,
                confidence=tenth, family=given.family, level=given.level, seq=0,
            )  # fmt: skip
            row = found.get((alike, place))
            if row is None:
                row = _Row(_expected(alike, records[key]), _shifts_of(alike, records[key], place))
                found[alike, place] = row
            row.checked += 1
            row.wrong += given.verdict != above.verdict
    return list(found.values())


def _expected(opinion: Opinion, record: JudgeRecord) -> float:
    """Return the log odds of an error before any check."""
    lenient = record.leniency if opinion.verdict == "success" else -record.leniency
    return _log_odds(_prior(opinion)) - CONFIDENCE_TRUST * _unusual(opinion, record) + LENIENCY_TRUST * lenient


def _shifts_of(opinion: Opinion, record: JudgeRecord, place: float) -> dict[Shift, float]:
    """Return the shifts of the log odds of an error, and the size of each."""
    by = opinion.by
    shifts: dict[Shift, float] = {("judge", by, ""): 1.0, ("value", by, opinion.verdict): 1.0}
    if opinion.family is not None:
        shifts["family", by, opinion.family] = 1.0
    if unusual := _unusual(opinion, record):
        shifts["confidence", by, ""] = unusual
    if opinion.level is not None and record.level is not None and opinion.level != record.level:
        shifts["level", by, ""] = opinion.level - record.level
    if place:
        shifts["time", by, ""] = place
    return shifts


def _place(opinion: Opinion, record: JudgeRecord) -> float:
    """Return where a verdict lies among those of its judge with this value, from -1, the first, to 1, the last."""
    both = record.last - record.first
    return max(-1.0, min(1.0, (2 * opinion.seq - record.first - record.last) / both)) if both else 0.0


def _unusual(opinion: Opinion, record: JudgeRecord) -> float:
    """Return how far the confidence lies above the judge's usual one, in log odds; 0 if unknown."""
    if opinion.confidence is None or record.confidence is None:
        return 0.0
    return _log_odds(opinion.confidence) - _log_odds(record.confidence)


def _fit(rows: list[_Row]) -> dict[Shift, float]:
    """Return the shifts of the highest posterior probability: one after the other, until none changes any more.

    Each step goes by the greatest curvature that the likelihood can have, so the probability rises in every step.
    """
    of_shift: defaultdict[Shift, list[tuple[_Row, float]]] = defaultdict(list)
    for row in rows:
        for shift, by in row.shifts.items():
            of_shift[shift].append((row, by))
    # In one order, whatever the order of the judgments: rounding must not depend on it.
    shifts = dict.fromkeys(sorted(of_shift), 0.0)
    weights = {shift: 1 / SPREADS[shift[0]] ** 2 for shift in shifts}
    steepest = {
        shift: weights[shift] + sum(by * by * row.checked for row, by in of_shift[shift]) / 4 for shift in shifts
    }
    for _ in range(ROUNDS_MOST):
        largest = 0.0
        for shift, value in shifts.items():
            pull = sum(by * (row.wrong - row.checked / (1 + exp(-row.expected))) for row, by in of_shift[shift])
            step = (pull - weights[shift] * value) / steepest[shift]
            shifts[shift] = value + step
            for row, by in of_shift[shift]:
                row.expected += by * step
            largest = max(largest, abs(step))
        if largest < PRECISION:
            break
    return shifts


def _log_odds(probability: float) -> float:
    bounded = min(1 - LEAST_PROBABILITY, max(LEAST_PROBABILITY, probability))
    return log(bounded / (1 - bounded))


def _share(log_odds: float) -> float:
    """Return the probability of log odds, bounded."""
    most = _log_odds(1.0)
    return 1 / (1 + exp(-min(most, max(-most, log_odds))))
