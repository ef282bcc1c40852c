"""The answers `items`, a page of the list of items, and `item`: one with what it came from and what it led to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from rbank_es.errors import NotInBank
from rbank_es.events import ItemsLinked
from rbank_es.events.items import Polarity
from rbank_es.limits import page_limits
from rbank_es.page.answers.page_question import PageQuestion, cut, listed
from rbank_es.state import ItemStatus

if TYPE_CHECKING:
    from rbank_es.projections.view import View

SORTS = {
    **{name: name for name in ("title", "state", "polarity", "src", "support", "uses", "wins", "losses")},
    "born": "born_seq",
}
"""The columns by which items are sorted, by their names in answers."""


def items_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return a page of the items that fit the filters: `q`, `state`, `polarity`, `domain`."""
    from rbank_es.projections.paged_view import RowCondition

    conditions = asked.words("id", "title", "desc", "content")
    for name, values in (("state", get_args(ItemStatus)), ("polarity", get_args(Polarity))):
        if (value := asked.one_of(name, values)) is not None:
            conditions.append(RowCondition((name,), "is", value))
    if (domain := asked.text("domain")) is not None:
        conditions.append(RowCondition(("domains",), "has", domain))
    page = asked.page("items", conditions, SORTS, "-born")
    return listed(page, [_listed(row) for row in page.rows])


def item_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the view `items` as answers name its columns."""
    same = ("id", "title", "desc", "state", "polarity", "src", "support", "uses", "wins", "losses")
    return {
        **{name: row[name] for name in same},
        "domains": msgspec.json.decode(row["domains"]),
        "born": row["born_seq"],
        **{name: bool(row[name]) for name in ("vouched", "erased")},
    }


def _listed(row: Mapping[str, Any]) -> dict[str, Any]:
    made = item_row(row)
    return made | {name: cut(made[name]) for name in ("title", "desc")}


# ---------------------------------------------------------------- one item


def item_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the item `id`: its words, its states, the verdicts that let it in, the runs that were given it."""
    id = asked.needed("id")
    row = asked.view.item(id)
    if row is None:
        raise NotInBank(id, asked.position)
    back = [_ground(asked.view, drawn) for drawn in asked.view.rows("drawn_candidates", item=id)]
    return {
        **item_row(row),
        "content": row["content"],
        "tags": msgspec.json.decode(row["tags"]) if row["tags"] else [],
        "states": asked.view.item_history(id),
        "back": sorted(back, key=lambda each: (each["seq"], each["candidate"], each["run"] or "")),
        "forward": _forward(asked.view, id),
        "links": list(_links(asked, row)),
        "warning": _warning(back),
    }


def _ground(view: View, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return one run from which a candidate with the item's words was drawn, and the verdict that this relied on."""
    relied = dict(msgspec.json.decode(drawn["relied"], type=list[tuple[str, str]]))
    run = (None if drawn["run"] is None else view.run(drawn["run"])) or {}
    return {
        **{"extraction": drawn["extraction"], "candidate": drawn["place"], "seq": drawn["seq"], "kind": drawn["kind"]},
        **{"run": drawn["run"], "task": cut(run.get("task"))},
        **{"relied": relied.get(drawn["run"] or ""), "verdict": run.get("verdict")},
        **{"stands": bool(drawn["stands"]), "action": drawn["action"], "undone": bool(drawn["undone"])},
    }


def _warning(back: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a sentence about the first verdict that let the item in and is another one now; None if all hold."""
    for each in sorted(back, key=lambda ground: (ground["seq"], ground["candidate"], ground["run"] or "")):
        if each["relied"] is not None and each["verdict"] not in (None, each["relied"]):
            return (
                f"It was drawn from {each['run']} as a {each['relied']}, and that run's verdict is {each['verdict']}."
            )
    return None


def _forward(view: View, id: str) -> dict[str, Any]:
    hits = view.rows("lineage_edges", source_kind="item", source=id, relation="hit_in")
    given = sorted(view.rows("item_exposures", item=id), key=lambda row: (-row["seq"], row["run"], row["way"]))
    runs = [_use(view, row) for row in given[: page_limits.LIST_ROWS_MOST]]
    return {"searches": len(hits), "total": len(given), "runs": runs}


def _use(view: View, row: Mapping[str, Any]) -> dict[str, Any]:
    run = view.run(row["run"]) or {}
    facts = {"run": row["run"], "task": cut(run.get("task")), "verdict": run.get("verdict")}
    return facts | {"way": row["way"], "seq": row["seq"]}


def _links(asked: PageQuestion, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items that this one is linked with, or that superseded it."""
    for event in asked.bank.events(point=asked.position, types={"items_linked"}):
        if isinstance(event, ItemsLinked) and row["id"] in (event.source, event.target):
            from_here = event.source == row["id"]
            yield _link(asked, event.target if from_here else event.source, event.how, event.seq, from_here)
    for other in msgspec.json.decode(row["superseded_by"]) if row["superseded_by"] else ():
        yield _link(asked, other, "superseded by", row["ended_seq"], True)


def _link(asked: PageQuestion, id: str, how: str, seq: int | None, from_here: bool) -> dict[str, Any]:
    title = (asked.view.item(id) or {}).get("title")
    return {"id": id, "title": cut(title), "how": how, "seq": seq, "from_here": from_here}
