"""The question `search`: the active items that fit a query, ranked as the bank ranked them at that position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from rbank_es import limits
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.events import Floor
from rbank_es.projections.search_result import FoundItem
from rbank_es.system.proportion import percent


class SearchQuestion(BankQuestion, frozen=True, kw_only=True):
    """Which words, and which items."""

    query: Annotated[str, Meta(description="Plain words, without any syntax.")]
    k: Annotated[int | None, Meta(description=f"Hits at most, to {limits.SEARCH_HITS}; null: by the policy.")] = None
    polarity: Annotated[str | None, Meta(description="Only strategies (success) or guardrails (failure).")] = None
    role: Annotated[str | None, Meta(description="Only items that serve this role.")] = None
    domain: Annotated[
        str | None, Meta(description="The ontology of the query: the policy may rank its items first.")
    ] = None
    level: Annotated[
        int | None, Meta(description="The level of the query's task: the policy may leave out what was learned above.")
    ] = None


class Found(BankAnswer, frozen=True, kw_only=True):
    """The result of a search: iterated, counted and indexed it is its hits, best first."""

    query: str
    policy: str
    k: int
    hits: tuple[FoundItem, ...]
    withheld: tuple[FoundItem, ...]
    floor: Floor | None
    fallback: str | None

    def __iter__(self) -> Iterator[FoundItem]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> FoundItem:
        return self.hits[place]


def find_hits(reader: BankReader, question: SearchQuestion) -> Found:
    """Return what a query finds, and what the policy withholds. Raises `BadSearch`, `BadPolicy`."""
    narrower = {name: getattr(question, name) for name in ("polarity", "role", "domain", "level")}
    result = reader.view.retrieve(question.query, question.k, **narrower)
    event = result.event
    return Found(
        bank=reader.name,
        position=reader.position,
        query=question.query,
        policy=event.policy,
        k=event.k,
        hits=tuple(result.items),
        withheld=tuple(result.withheld),
        floor=event.floor,
        fallback=event.fallback,
    )


def shortfall(figure: str | None, score: float, coverage: float | None, floor: Floor | None) -> str:
    """Return how far a match is below the floor, because of a figure that `Shortfall` names."""
    least = floor or Floor()
    if figure == "coverage":
        return f"covers {share_in_words(coverage)} of the query, and {share_in_words(least.coverage)} is the least"
    if figure == "share_of_best":
        best = score_in_words(least.best or 0.0)
        needed = f"{share_in_words(least.share_of_best)} of the {best} of the best of any polarity"
    else:
        needed = f"{least.score:g}"
    return f"has the score {score_in_words(score)}, and {needed} is the least"


def share_in_words(share: float | None) -> str:
    """Return a share in percent."""
    return "an unknown share" if share is None else percent(share).replace("%", " %")


def score_in_words(score: float) -> str:
    """Return a score with three digits after the point; `≈ 0` for one that they can't tell from 0."""
    shown = f"{score:.3f}"
    return shown if float(shown) else "≈ 0"


QUESTION = QuestionKind(
    about="The active items that fit a query best, and those that the policy withholds.",
    question=SearchQuestion,
    answer=Found,
    find=find_hits,
    rows="hits",
)
