"""The verdicts that a person should check first: those whose being wrong would cost most. Pure, and without a model.

The expected loss of a verdict is the probability that it is wrong, times the weight of what rests on it alone.

Probability. A judge is as often wrong as its verdicts of the same value and about the same confidence in this bank that
somebody with more authority judged as well, smoothed by a prior, which is the higher, the further the confidence lies
below the judge's usual one. Every other judge of the run shifts the odds by its own, as if judges erred independently:
agreement never raises the doubt, disagreement never lowers it. People tend to check what looks wrong, so a judge is
rather better than its record says.

Weight. The items that would leave at once if the verdict were the other one, their uses, and the runs that were given
them. It is a first-order figure: a correction makes decisions again, so the same lesson may come in from another run.
`overrule --dry-run` shows the whole effect of one verdict.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.run_events import Purpose, VerdictValue
from rbank_es.state import LiveState, StandingVerdict, State

JUDGMENTS = frozenset({"run_judged", "judgment_overruled"})
"""The types of events that a review reads beside the state."""

OPPOSITE: Mapping[VerdictValue, VerdictValue] = {"success": "failure", "failure": "success"}

PRIORS: Mapping[tuple[str, VerdictValue], float] = {
    # The earlier work on reasoning banks checked its judging model against gold queries: it was right on 44 % of the
    # runs, and 5 of its 6 errors were successes. So a success is wrong in 56 %, and a failure in a fifth of that.
    ("lm", "success"): 0.56,
    ("lm", "failure"): 0.11,
    # Assumed: a check that isn't sure knows no more than a coin, which is why any model outranks it.
    ("check", "success"): 0.5,
    ("check", "failure"): 0.5,
    # Assumed: the right answer may itself be wrong or outdated.
    ("gold", "success"): 0.05,
    ("gold", "failure"): 0.05,
    ("human", "success"): 0.0,
    ("human", "failure"): 0.0,
}
"""The probability that a verdict is wrong before any verdict of its judge was checked, by kind and value."""

SURE_PRIOR = 0.05
"""That of a failure of which a check is sure. Assumed: a run that didn't converge may still hold the right answer."""

PRIOR_CHECKS = 4
"""Checked verdicts in this bank that weigh as much as the prior. Few, because the prior comes from other banks."""

CONFIDENCE_TRUST = 0.5
"""The power to which the odds of a stated confidence count, because models state too extreme ones (source: Xiong et
al., Can LLMs Express Their Uncertainty?, arXiv:2306.13063)."""

CONFIDENCE_REACH = 0.3
"""Confidences that differ by so much say nothing of one another. Assumed."""

LEAST_PROBABILITY = 0.01
"""No probability is closer to 0 or 1, because no few verdicts can show more."""

ITEM_WEIGHT, USE_WEIGHT, RUN_WEIGHT = 1.0, 0.25, 0.25
"""Weights of an item, of one use of it, and of a run that was given any. Our own choice: an item that nobody was given
yet may still be, each use shows that it fits, and a run that it misled is in doubt itself."""

CHARS_PER_MINUTE = 1_430
"""Reading speed: 238 words of prose a minute (source: Brysbaert 2019, doi:10.1016/j.jml.2019.104047), of 6 characters
with the blank."""

MINUTES_EACH = 1.0
"""Minutes to find out the right answer beside reading, the least for any verdict. Assumed."""


Judge = tuple[str, str]
"""A judge: its name with its version, as in `lm-1`, and its kind."""


class Opinion(Struct, frozen=True, kw_only=True):
    """The latest decided verdict of one judge on one run. `judge` has its version, as in `lm-1`."""

    judge: str
    kind: str
    verdict: VerdictValue
    purpose: Purpose
    sure: bool = False
    confidence: float | None = None
    seq: int

    @property
    def by(self) -> Judge:
        """The judge."""
        return self.judge, self.kind


class Checks(Struct, frozen=True, kw_only=True):
    """Verdicts of about one confidence (to a tenth, None for those without) that were checked, and the wrong ones."""

    confidence: float | None
    checked: int
    wrong: int


class JudgeRecord(Struct, frozen=True, kw_only=True):
    """The verdicts of one value by one judge: how many somebody with more authority checked, how many were wrong.

    `confidence` is the mean of those that state one, None if none does; `by_confidence` are the checked ones apart.
    `prior` is explained at `PRIORS`.
    """

    judge: str
    kind: str
    verdict: VerdictValue
    prior: float
    checked: int = 0
    wrong: int = 0
    confidence: float | None = None
    by_confidence: tuple[Checks, ...] = ()

    def error(self, confidence: float | None) -> float:
        """Return the probability that such a verdict of a confidence is wrong: the share among those checked, smoothed.

        Checked verdicts count the less, the more their confidence differs: what was found at 0.6 tells little of 0.9,
        so a judge that is confidently wrong is found out.
        """
        odds = _odds(self.prior)
        if confidence is not None and self.confidence is not None:
            odds *= (_odds(1 - confidence) / _odds(1 - self.confidence)) ** CONFIDENCE_TRUST
        wrong, checked = PRIOR_CHECKS * odds / (1 + odds), float(PRIOR_CHECKS)
        for each in self.by_confidence:
            weight = _closeness(each.confidence, confidence)
            wrong, checked = wrong + weight * each.wrong, checked + weight * each.checked
        return _bounded(wrong / checked)


Records = Mapping[tuple[Judge, VerdictValue], JudgeRecord]
"""The records of judges, by judge and value."""


class Doubt(Struct, frozen=True, kw_only=True):
    """The probability that a verdict is wrong, and what it follows from: see the module."""

    probability: float
    record: JudgeRecord
    confidence: float | None = None
    against: tuple[Opinion, ...] = ()
    agreeing: tuple[Opinion, ...] = ()


class Stake(Struct, frozen=True, kw_only=True):
    """What rests on one verdict alone: active items, their uses, and the runs that were given any of them."""

    items: tuple[str, ...] = ()
    uses: int = 0
    runs: tuple[str, ...] = ()

    @property
    def weight(self) -> float:
        """The weighted sum of items, uses and runs."""
        return ITEM_WEIGHT * len(self.items) + USE_WEIGHT * self.uses + RUN_WEIGHT * len(self.runs)


class DoubtfulVerdict(Struct, frozen=True, kw_only=True):
    """A verdict on which items rest alone. `seq` is the position of its judgment, `loss` the expected loss."""

    run: str
    verdict: VerdictValue
    judge: str
    kind: str
    seq: int
    doubt: Doubt
    stake: Stake
    loss: float


def doubtful_verdicts(
    state: State, judgments: Iterable[RunJudged | JudgmentOverruled], progress: Callable[[int, int], None] | None = None
) -> tuple[DoubtfulVerdict, ...]:
    """Return the verdicts of a state on which items rest alone, the highest expected loss first, then the earliest.

    `judgments` are all of the bank up to the state's position. What a person said is left out, and what is undecided:
    nothing rests on it. `progress` is called with the number of runs done and their total.
    """
    opinions = opinions_of(judgments)
    records = judge_records(opinions)
    standing = [(run, each) for (run, purpose), each in state.verdicts.items() if purpose == "learning"]
    found = []
    for number, (run, verdict) in enumerate(standing):
        if progress is not None and number % 100 == 0:
            progress(number, len(standing))
        if verdict.kind == "human" or verdict.verdict == "undecided":
            continue
        stake = stake_of(state, run, verdict.verdict)
        if stake.items:
            found.append(_doubtful(run, verdict, stake, opinions.get(run, {}), records))
    # Rounded, because a difference in the last digit must not outweigh the position.
    return tuple(sorted(found, key=lambda each: (-round(each.loss, 9), each.seq)))


def _doubtful(
    run: str,
    standing: StandingVerdict,
    stake: Stake,
    opinions: Mapping[Judge, Opinion],
    records: Records,
) -> DoubtfulVerdict:
    judge = f"{standing.judge}-{standing.judge_version}"
    given = Opinion(
        judge=judge,
        kind=standing.kind,
        verdict=standing.verdict,
        purpose="learning",
        sure=standing.sure,
        confidence=standing.confidence,
        seq=standing.seq,
    )
    doubt = doubt_of(given, [each for by, each in opinions.items() if by != given.by], records)
    return DoubtfulVerdict(
        run=run,
        verdict=standing.verdict,
        judge=judge,
        kind=standing.kind,
        seq=standing.seq,
        doubt=doubt,
        stake=stake,
        loss=doubt.probability * stake.weight,
    )


# ---------------------------------------------------------------- the probability


def opinions_of(judgments: Iterable[RunJudged | JudgmentOverruled]) -> Mapping[str, Mapping[Judge, Opinion]]:
    """Return the latest verdict of each judge, unless it is undecided, by run and judge."""
    found: defaultdict[str, dict[Judge, Opinion]] = defaultdict(dict)
    for event in judgments:
        judge = f"{event.judge}-{event.judge_version}"
        if event.verdict == "undecided":
            found[event.run].pop((judge, event.kind), None)
            continue
        found[event.run][judge, event.kind] = Opinion(
            judge=judge,
            kind=event.kind,
            verdict=event.verdict,
            purpose=event.purpose,
            sure=event.sure,
            confidence=event.confidence,
            seq=event.seq,
        )
    return found


def judge_records(opinions: Mapping[str, Mapping[Judge, Opinion]]) -> Records:
    """Return the record of each judge for each value that it gave, from the verdicts by run and judge.

    A verdict is checked where a judge of a higher authority decided about the same run, for learning or for scoring:
    the verdict of the highest, of equals the latest, is taken to be right.
    """
    cases: defaultdict[tuple[Judge, VerdictValue], list[tuple[Opinion, Opinion | None]]] = defaultdict(list)
    for of_run in opinions.values():
        best = max(of_run.values(), key=lambda each: (_authority(each), each.seq), default=None)
        for each in of_run.values():
            above = best if best is not None and _authority(best) > _authority(each) else None
            cases[each.by, each.verdict].append((each, above))
    return {key: _record(each) for key, each in cases.items()}


def _record(cases: list[tuple[Opinion, Opinion | None]]) -> JudgeRecord:
    latest = max((given for given, _ in cases), key=lambda each: each.seq)
    wrong = Counter[float | None]()
    checked = Counter[float | None]()
    for given, above in cases:
        if above is not None:
            tenth = None if given.confidence is None else round(given.confidence, 1)
            checked[tenth] += 1
            wrong[tenth] += given.verdict != above.verdict
    stated = [given.confidence for given, _ in cases if given.confidence is not None]
    return JudgeRecord(
        judge=latest.judge,
        kind=latest.kind,
        verdict=latest.verdict,
        prior=_prior(latest),
        checked=checked.total(),
        wrong=wrong.total(),
        confidence=sum(stated) / len(stated) if stated else None,
        by_confidence=tuple(
            Checks(confidence=tenth, checked=number, wrong=wrong[tenth])
            for tenth, number in sorted(checked.items(), key=lambda pair: (pair[0] is None, pair[0] or 0.0))
        ),
    )


def _authority(opinion: Opinion) -> int:
    """Return the authority of a verdict as evidence: here the right answer counts whatever it may teach."""
    if opinion.kind == "check":
        return 3 if opinion.sure and opinion.verdict == "failure" else 1
    return {"human": 5, "gold": 4, "lm": 2}[opinion.kind]


def _prior(opinion: Opinion) -> float:
    sure = opinion.kind == "check" and opinion.sure and opinion.verdict == "failure"
    return SURE_PRIOR if sure else PRIORS[opinion.kind, opinion.verdict]


def doubt_of(given: Opinion, others: Iterable[Opinion], records: Records) -> Doubt:
    """Return the probability that a verdict is wrong, given the verdicts of other judges on the same run."""
    record = records.get((given.by, given.verdict)) or _record([(given, None)])
    odds = _odds(record.error(given.confidence))
    against, agreeing = list[Opinion](), list[Opinion]()
    for each in sorted(others, key=lambda other: other.seq):
        known = records.get((each.by, each.verdict)) or _record([(each, None)])
        # A judge that is worse than a coin is no evidence, rather than evidence for the opposite of its verdict.
        evidence = min(1.0, _odds(known.error(each.confidence)))
        odds = odds * evidence if each.verdict == given.verdict else odds / evidence
        (agreeing if each.verdict == given.verdict else against).append(each)
    return Doubt(
        probability=_bounded(odds / (1 + odds)),
        record=record,
        confidence=given.confidence,
        against=tuple(against),
        agreeing=tuple(agreeing),
    )


def _odds(probability: float) -> float:
    bounded = _bounded(probability)
    return bounded / (1 - bounded)


def _closeness(one: float | None, other: float | None) -> float:
    """Return the weight, 0 to 1, of a verdict for another one, by their confidences."""
    return 1.0 if one is None or other is None else max(0.0, 1 - abs(one - other) / CONFIDENCE_REACH)


def _bounded(probability: float) -> float:
    return min(1 - LEAST_PROBABILITY, max(LEAST_PROBABILITY, probability))


# ---------------------------------------------------------------- the weight


def stake_of(state: State, run: str, verdict: VerdictValue) -> Stake:
    """Return what rests on a verdict alone: what would leave a state at once if the verdict were the other one."""
    if not state.relying.get(run):
        return Stake()
    # The fold itself, so that no second rule says what stands.
    trial = LiveState(state)
    changed = trial.advance([_otherwise(run, verdict, state.position + 1)])
    left = sorted(
        id
        for id in changed
        if id in state.items and state.items[id].state == "active" and trial.state.items[id].state != "active"
    )
    given = dict.fromkeys(run for id in left for run in state.uses.get(id, ()))
    return Stake(items=tuple(left), uses=sum(len(state.uses.get(id, ())) for id in left), runs=tuple(sorted(given)))


def _otherwise(run: str, verdict: VerdictValue, seq: int) -> JudgmentOverruled:
    return JudgmentOverruled(
        id="otherwise",
        seq=seq,
        run=run,
        purpose="learning",
        verdict=OPPOSITE[verdict],
        judge="human",
        judge_version="1",
        kind="human",
        by="review",
    )


# ---------------------------------------------------------------- the time of a person


def minutes_to_check(chars: int) -> float:
    """Return the minutes that a person needs to check a verdict, given the characters that have to be read."""
    return MINUTES_EACH + chars / CHARS_PER_MINUTE


def within(minutes: Iterable[float], limit: float) -> list[int]:
    """Return the indices of what fits into so many minutes, taken in order; what is too long for the rest is passed
    over."""
    chosen, spent = [], 0.0
    for index, each in enumerate(minutes):
        if spent + each <= limit:
            chosen.append(index)
            spent += each
    return chosen
