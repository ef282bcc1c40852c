"""The question `items`: a list of items in any state, with their words, their support, and how they fared."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rbank_es.answers.shared.bank_reader import BankReader, struct_of
from rbank_es.answers.shared.question_form import ListQuestion, Page, QuestionKind
from rbank_es.events.items import Polarity, Source
from rbank_es.law import ItemStatus


class ItemRow(Struct, frozen=True, kw_only=True):
    """An item in a list. `rbank-es schema --answers items` has the unit and the meaning of each field."""

    id: str
    title: str
    desc: str
    content: str
    src: Source
    polarity: Polarity
    role: str | None
    scope: str
    domain: str | None
    domains: tuple[str, ...]
    tags: tuple[str, ...]
    state: ItemStatus
    support: int
    uses: int
    wins: int
    losses: int
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    runs: tuple[str, ...]
    near_rejected: tuple[str, ...]
    superseded_by: tuple[str, ...]
    extraction: str
    born_seq: int
    ended_seq: int | None
    vouched: bool
    erased: bool


class ItemPage(Page[ItemRow], frozen=True, kw_only=True):
    """A page of items, in JSON under `items`."""

    rows: Annotated[tuple[ItemRow, ...], Meta(description="JSON list: the items of this page")] = msgspec.field(
        name="items"
    )


class ItemsQuestion(ListQuestion, frozen=True, kw_only=True):
    """Which items, in which order."""

    q: Annotated[str | None, Meta(description="Words that an item's id, title, desc or content must all have.")] = None
    domain: Annotated[str | None, Meta(description="Only items that are about this ontology.")] = None


def find_items(reader: BankReader, question: ItemsQuestion) -> ItemPage:
    """Return a page of the items that fit, the newest first unless sorted otherwise."""
    from rbank_es.projections.paged_view import RowCondition

    narrowed = []
    if words := tuple((question.q or "").split()):
        narrowed.append(RowCondition(("id", "title", "desc", "content"), "contains", words))
    if question.domain is not None:
        narrowed.append(RowCondition(("domains",), "has", question.domain))
    page = reader.page("items", ItemRow, question, sort="-born_seq", conditions=narrowed)
    rows = tuple(struct_of(ItemRow, row) for row in page.rows)
    return ItemPage(bank=reader.name, position=reader.position, total=page.total, next=page.next, rows=rows)


QUESTION = QuestionKind(
    about="The items in every state, filtered, sorted, page by page.",
    question=ItemsQuestion,
    answer=ItemPage,
    find=find_items,
    rows="rows",
)
