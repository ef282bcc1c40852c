"""The quality of retrieval, measured on labelled cases: questions, each with the items that help to answer it.

Two things are measured. Of the cases that some item helps: where it is ranked among the first ten hits. Of all cases:
whether the items that a run would be given unasked help it, with unrelated questions among them, which should be given
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.items import Polarity
from rbank_es.events.json_input import decode_strict
from rbank_es.policies.retrieval_protocol import RetrievalPolicy
from rbank_es.system.input_file import without_mark

DEPTH = 10
"""Hits by which a ranking is measured: more than a run is ever given."""

Half = Literal["chosen", "unseen"]
"""Settings are chosen by one half of the cases, and reported on the other too."""


class RelevanceCase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question with the ids of all items that help to answer it: none, if it is unrelated to the bank.

    `domain` is the ontology of the run that asks. `without` are items that aren't to be found, such as one that was
    drawn from this very question.
    """

    query: str
    relevant: tuple[str, ...]
    id: str = ""
    domain: str | None = None
    without: tuple[str, ...] = ()

    @property
    def half(self) -> Half:
        """The half that the case is in, by a hash of its id, so that it never moves."""
        return "unseen" if sha256(self.id.encode()).digest()[0] % 2 else "chosen"


class CaseQuality(Struct, frozen=True, kw_only=True):
    """The measures of one case.

    `first`: 1.0 if the first hit is relevant. `recall`: the share of its relevant items among the first ten hits (of
    ten, if it has more). `reciprocal`: 1 / rank of the first relevant hit. Each is 0.0 where `related` is false.
    `given` are the ids that a run would be given unasked, `right` the number of them that are relevant.
    """

    id: str
    related: bool
    first: float
    recall: float
    reciprocal: float
    given: tuple[str, ...]
    right: int


Search = Callable[[RelevanceCase, int, Polarity | None], Sequence[str]]
"""Returns the ids of the best so many hits for a case, of one polarity if it is given."""


def evaluate(policy: RetrievalPolicy, cases: Iterable[RelevanceCase], search: Search) -> tuple[CaseQuality, ...]:
    """Return the measures of each case, in order. `search` ranks by the policy; its settings say how many are given."""
    return tuple(_measured(policy, case, search) for case in cases)


def _measured(policy: RetrievalPolicy, case: RelevanceCase, search: Search) -> CaseQuality:
    relevant = frozenset(case.relevant)
    found = search(case, DEPTH, None) if relevant else ()
    ranks = [rank for rank, id in enumerate(found, 1) if id in relevant]
    wanted: dict[Polarity, int] = {"success": policy.k_success, "failure": policy.k_failure}
    given = tuple(id for polarity, k in wanted.items() if k for id in search(case, k, polarity))
    return CaseQuality(
        id=case.id,
        related=bool(relevant),
        first=float(ranks[:1] == [1]),
        recall=len(ranks) / min(DEPTH, len(relevant)) if relevant else 0.0,
        reciprocal=1 / ranks[0] if ranks else 0.0,
        given=given,
        right=len(relevant.intersection(given)),
    )


class Injection(Struct, frozen=True, kw_only=True):
    """Counts of what runs would be given unasked.

    Precision is `right` of `given`; coverage is `covered` of `related`, the related cases that are given a relevant
    item; `disturbed` of `unrelated` cases are given anything.
    """

    given: int
    right: int
    related: int
    covered: int
    unrelated: int
    disturbed: int


def injection(measured: Sequence[CaseQuality]) -> Injection:
    """Return the counts over measured cases."""
    related = [case for case in measured if case.related]
    unrelated = [case for case in measured if not case.related]
    return Injection(
        given=sum(len(case.given) for case in measured),
        right=sum(case.right for case in measured),
        related=len(related),
        covered=sum(case.right > 0 for case in related),
        unrelated=len(unrelated),
        disturbed=sum(bool(case.given) for case in unrelated),
    )


def read_cases(text: bytes) -> tuple[RelevanceCase, ...]:
    """Parse JSON Lines into cases; one without an id is called by its line. Blank lines are skipped.

    Raises `BadInput` naming the line for what is no case, for two cases of one id, for too many, and for none.
    """
    found: dict[str, RelevanceCase] = {}
    for number, line in enumerate(without_mark(text).split(b"\n"), 1):
        if line.strip():
            case = _read(line, number)
            if case.id in found:
                raise BadInput(f"line {number:,}: there is a case {case.id!r} already; give each an id of its own")
            found[case.id] = case
        if len(found) > limits.RELEVANCE_CASES:
            raise BadInput(f"there are more than {limits.RELEVANCE_CASES:,} cases; give a sample of them")
    if not found:
        raise BadInput('there are no cases; give JSON Lines such as {"query": "…", "relevant": ["ITEM"]}')
    return tuple(found.values())


def _read(line: bytes, number: int) -> RelevanceCase:
    try:
        case = msgspec.convert(decode_strict(line), RelevanceCase)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(
            f'line {number:,} is no case: {error}; give a JSON object such as {{"query": "…", "relevant": ["ITEM"]}}'
        ) from None
    return case if case.id else msgspec.structs.replace(case, id=f"line-{number}")
