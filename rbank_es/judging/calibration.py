"""Calibration: any judge over cases that an expert has judged, with every disagreement told."""

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
from rbank_es.judging.gold import Gold
from rbank_es.judging.metrics import Metrics
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.judging.verdict import Verdict


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent submitted, and what an expert says of it. `outcome` tells of runs that didn't submit.

    Other fields of a file are passed over.
    """

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
        """What is right, where the case says it."""
        return Gold(sparql=self.expected_sparql) if self.expected_sparql.strip() else None


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A case and what the judge said; `failure` is why it said nothing."""

    case: Case
    verdict: Verdict | None = None
    failure: str = ""

    @property
    def agrees(self) -> bool:
        """Whether judge and expert say the same."""
        return self.verdict is not None and self.verdict.success == self.case.expert_verdict


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A judge over labelled cases, in their order."""

    judged: tuple[Judged, ...]

    @property
    def metrics(self) -> Metrics:
        """Figures over the cases that got a verdict."""
        return Metrics.of((each.verdict.success, each.case.expert_verdict) for each in self.judged if each.verdict)

    @property
    def disagreements(self) -> tuple[Judged, ...]:
        """The cases that judge and expert see differently."""
        return tuple(each for each in self.judged if each.verdict is not None and not each.agrees)

    @property
    def unjudged(self) -> tuple[Judged, ...]:
        """The cases that the judge came to no verdict on."""
        return tuple(each for each in self.judged if each.verdict is None)

    def as_dict(self) -> dict[str, Any]:
        """Figures, disagreements with both reasons, and cases without a verdict, for programs."""
        return {
            **self.metrics.as_dict(),
            "disagreements": [
                {
                    "id": each.case.id,
                    "task": each.case.query,
                    "expert": each.case.expert_verdict,
                    "expert_reason": each.case.expert_reason,
                    "judge": each.verdict.success,
                    "judge_reason": each.verdict.reason,
                }
                for each in self.disagreements
                if each.verdict is not None
            ],
            "unjudged": [{"id": each.case.id, "why": each.failure} for each in self.unjudged],
            "verdicts": {each.case.id: each.verdict.success for each in self.judged if each.verdict is not None},
        }


Judge = Callable[[Case], Verdict]
"""Judges a case. Raises `JudgeFailed` where it comes to no verdict."""


def calibrate(cases: Iterable[Case], judge: Judge) -> Calibration:
    """A judge's verdicts on cases, one after the other. Raises what the judge does, `JudgeFailed` excepted."""
    return Calibration(judged=tuple(_judged(case, judge) for case in cases))


def _judged(case: Case, judge: Judge) -> Judged:
    try:
        return Judged(case=case, verdict=judge(case))
    except JudgeFailed as failed:
        return Judged(case=case, failure=failed.reason)


def load_cases(path: str | Path) -> tuple[Case, ...]:
    """The cases of a file: a JSON list, or JSON Lines. Raises `BadInput`, naming the case that is wrong."""
    place = Path(path)
    data = read_at_most(place, limits.JUDGE_CASES_BYTES, "cases")
    cases = tuple(_cases(data.removeprefix(b"\xef\xbb\xbf"), str(place)))
    if not cases:
        raise BadInput(f"{place}: there is no case in it")
    [(id, times)] = Counter(case.id for case in cases).most_common(1)
    if times > 1:
        raise BadInput(f"{place}: the id {id!r} is there {times:,} times")
    return cases


def _cases(data: bytes, name: str) -> Iterator[Case]:
    for number, fields in enumerate(_objects(data, name), 1):
        try:
            yield msgspec.convert(fields, Case)
        except msgspec.ValidationError as error:
            raise BadInput(f"{name}, case {number}: {error}") from None


def _objects(data: bytes, name: str) -> list[Any]:
    try:
        if data.lstrip().startswith(b"["):
            return list(decode_strict(data))
        return [decode_strict(line) for line in data.splitlines() if line.strip()]
    except RepeatedKey as error:
        raise BadInput(f"{name}: {error}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"{name}: neither a JSON list nor JSON Lines: {error}") from None
