"""Calibration of judges: the metrics of any judge over cases that an expert labelled, and every disagreement.

Metrics are of the decided verdicts. How often a judge leaves a case undecided is counted beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events.json_input import RepeatedKey, decode_strict, read_at_most
from rbank_es.events.run_events import Outcome
from rbank_es.judging.gold_answers import Gold
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.verdict import Verdict
from rbank_es.lab.judge_confidence import Graded, Threshold, threshold_for
from rbank_es.system.proportion import wilson
from rbank_es.system.validation_messages import reason_of


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A submission of an agent with an expert's label. Other fields of a file are ignored."""

    id: str
    query: str
    expert_verdict: bool
    agent_sparql: str = ""
    agent_answer: str = ""
    expected_sparql: str = ""
    expert_reason: str = ""
    outcome: Outcome = "submitted"

    @property
    def run(self) -> RunOutcome:
        """The case as a judge sees it: without anything that the expert knows."""
        return RunOutcome(task=self.query, answer=self.agent_answer, sparql=self.agent_sparql, outcome=self.outcome)

    @property
    def gold(self) -> Gold | None:
        """The right answer, if the case has one."""
        return Gold(sparql=self.expected_sparql) if self.expected_sparql.strip() else None


class JudgedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case with the judge's verdict, or with the reason why there is none."""

    case: Case
    verdict: Verdict | None = None
    failure: str = ""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a judge's verdicts against an expert's, success being positive. An undefined metric is None."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Metrics:
        """Count pairs of a judge's success and an expert's success."""
        counts = Counter(pairs)
        return cls(
            true_positive=counts[True, True],
            false_positive=counts[True, False],
            false_negative=counts[False, True],
            true_negative=counts[False, False],
        )

    @property
    def cases(self) -> int:
        """The number of verdicts compared."""
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative

    @property
    def accuracy(self) -> float | None:
        """The share of verdicts that agree."""
        return _share(self.true_positive + self.true_negative, self.cases)

    @property
    def precision(self) -> float | None:
        """The share of the judge's successes that are the expert's."""
        return _share(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float | None:
        """The share of the expert's successes that are the judge's."""
        return _share(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN)."""
        return _share(2 * self.true_positive, 2 * self.true_positive + self.false_positive + self.false_negative)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, -1 to 1: agreement beyond chance. None if both give the same one verdict to every case."""
        total = self.cases
        judge, expert = self.true_positive + self.false_positive, self.true_positive + self.false_negative
        # Compare as integers (scaled by total**2): rounding could make kappa's denominator 0.
        chance = judge * expert + (total - judge) * (total - expert)
        agreed = (self.true_positive + self.true_negative) * total
        return _share(agreed - chance, total * total - chance)

    def as_dict(self) -> dict[str, float | int | None]:
        """Return all metrics and counts by name."""
        names = ("cases", "accuracy", "precision", "recall", "f1", "kappa")
        return {name: getattr(self, name) for name in (*names, *self.__struct_fields__)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of a judge on labelled cases, in their order."""

    judged: tuple[JudgedCase, ...]

    @property
    def decided(self) -> tuple[tuple[Case, Verdict], ...]:
        """The cases that the judge decided, with its verdicts."""
        judged = ((each.case, each.verdict) for each in self.judged if each.verdict is not None)
        return tuple((case, verdict) for case, verdict in judged if verdict.verdict != "undecided")

    @property
    def undecided(self) -> tuple[JudgedCase, ...]:
        """The cases that the judge left undecided."""
        return tuple(each for each in self.judged if each.verdict and each.verdict.verdict == "undecided")

    @property
    def metrics(self) -> Metrics:
        """The metrics over the decided cases."""
        return Metrics.of((verdict.verdict == "success", case.expert_verdict) for case, verdict in self.decided)

    def threshold(self, alpha: float) -> Threshold:
        """Return the confidence from which at most `alpha` of the model's verdicts are wrong: see `threshold_for`."""
        return threshold_for(
            (
                Graded(verdict.confidence, (verdict.verdict == "success") != case.expert_verdict)
                for case, verdict in self.decided
                if verdict.confidence is not None
            ),
            alpha,
        )

    @property
    def disagreements(self) -> tuple[JudgedCase, ...]:
        """The cases on which judge and expert disagree."""
        return tuple(
            JudgedCase(case=case, verdict=verdict)
            for case, verdict in self.decided
            if (verdict.verdict == "success") != case.expert_verdict
        )

    @property
    def unjudged(self) -> tuple[JudgedCase, ...]:
        """The cases without a verdict."""
        return tuple(each for each in self.judged if each.verdict is None)

    def as_dict(self, alpha: float | None = None) -> dict[str, Any]:
        """Return metrics, disagreements with both reasons, and cases without a verdict, for programs.

        With an `alpha`, the threshold of confidence too.
        """
        metrics = self.metrics
        right, judged = metrics.true_positive + metrics.true_negative, metrics.cases + len(self.undecided)
        return {
            **metrics.as_dict(),
            "accuracy_interval": wilson(right, metrics.cases),
            "undecided": len(self.undecided),
            "undecided_share": _share(len(self.undecided), judged),
            "undecided_interval": wilson(len(self.undecided), judged),
            **({"threshold": self.threshold(alpha)} if alpha is not None else {}),
            "disagreements": [
                {
                    "id": each.case.id,
                    "task": each.case.query,
                    "expert": each.case.expert_verdict,
                    "expert_reason": each.case.expert_reason,
                    "judge": each.verdict.verdict,
                    "judge_reason": each.verdict.reason,
                }
                for each in self.disagreements
                if each.verdict is not None
            ],
            "unjudged": [{"id": each.case.id, "why": each.failure} for each in self.unjudged],
            "verdicts": {each.case.id: each.verdict.verdict for each in self.judged if each.verdict is not None},
        }


def calibrate(cases: Iterable[Case], judge: Callable[[Case], Verdict]) -> Calibration:
    """Judge cases one after the other. A `JudgeFailed` leaves its case without a verdict; other errors are raised."""
    return Calibration(judged=tuple(_judged(case, judge) for case in cases))


def _judged(case: Case, judge: Callable[[Case], Verdict]) -> JudgedCase:
    try:
        return JudgedCase(case=case, verdict=judge(case))
    except JudgeFailed as failed:
        return JudgedCase(case=case, failure=failed.reason)


# ---------------------------------------------------------------- files of cases


def load_cases(path: str | Path) -> tuple[Case, ...]:
    """Return the cases of a file: a JSON list, or JSON Lines. Raises `BadInput`, naming the invalid case."""
    place = Path(path)
    data = read_at_most(place, limits.JUDGE_CASES_BYTES, "cases")
    cases = tuple(_cases(data, str(place)))
    if not cases:
        raise BadInput(f"{place}: there is no case in it")
    [(id, times)] = Counter(case.id for case in cases).most_common(1)
    if times > 1:
        raise BadInput(f"{place}: the id {id!r} is there {times:,} times; give each case an id of its own")
    return cases


def _cases(data: bytes, name: str) -> Iterator[Case]:
    for number, fields in enumerate(_objects(data, name), 1):
        try:
            yield msgspec.convert(fields, Case)
        except msgspec.ValidationError as error:
            raise BadInput(f"{name}, case {number}: {reason_of(error, Case)}") from None


def _objects(data: bytes, name: str) -> list[Any]:
    try:
        if data.lstrip().startswith(b"["):
            return list(decode_strict(data))
        return [decode_strict(line) for line in data.splitlines() if line.strip()]
    except RepeatedKey as error:
        raise BadInput(f"{name}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{name}: neither a JSON list nor JSON Lines: {error}") from None
