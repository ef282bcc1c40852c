"""The answer `changes`, between two positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rbank_es.errors import BadInput
from rbank_es.limits import page_limits
from rbank_es.page.answers.page_question import PageQuestion, cut, second


def changes_answer(asked: PageQuestion) -> dict[str, Any]:
    """Return the changes behind the point `from`: states of items, verdicts, policies, and the runs that began.

    The first verdict on a run changes none: those are counted by their value.
    """
    from rbank_es.projections.paged_view import RowCondition

    since = asked.bank.resolve(asked.needed("from"))
    if since > asked.position:
        raise BadInput(f"from is position {since:,}, later than {asked.position:,}: exchange the two")
    begun = asked.view.pick("runs", ("run",), [RowCondition(("started_seq",), "after", since)])
    items, judged = asked.view.changed_states(since), asked.view.changed_verdicts(since)
    verdicts, most = [row for row in judged if row[1] is not None], page_limits.LIST_ROWS_MOST
    added = sum(before is None for _, before, _, _ in items)
    return {
        **{"from": since, "from_time": second(asked.bank.time_at(since)), "runs": len(begun)},
        "first_verdicts": Counter(after for _, before, after, _ in judged if before is None),
        "policies": _policies(asked, since),
        "items": {"total": len(items), "added": added, "rows": [_item(asked, *row) for row in items[:most]]},
        "verdicts": {"total": len(verdicts), "rows": _verdicts(asked, verdicts[:most])},
    }


def _item(asked: PageQuestion, id: str, before: str | None, after: str | None, seq: int) -> dict[str, Any]:
    title = (asked.view.item(id) or {}).get("title")
    return {"id": id, "title": cut(title), "before": before, "after": after, "seq": seq}


def _verdicts(asked: PageQuestion, rows: Iterable[tuple[str, str | None, str | None, int]]) -> list[dict[str, Any]]:
    rows = list(rows)
    tasks = asked.tasks([run for run, _, _, _ in rows])
    return [
        {"run": run, "task": cut(tasks.get(run)), "before": before, "after": after, "seq": seq}
        for run, before, after, seq in rows
    ]


def _policies(asked: PageQuestion, since: int) -> list[dict[str, Any]]:
    with asked.bank.as_of(since) as earlier:
        before = {row["kind"]: row for row in earlier.rows("policies")}
    after = {row["kind"]: row for row in asked.view.rows("policies")}
    made = []
    for kind in sorted(before.keys() | after.keys()):
        old, new = (found.get(kind) for found in (before, after))
        facts = [None if row is None else (row["name"], row["version"], row["settings"]) for row in (old, new)]
        if facts[0] != facts[1]:
            labels = [None if row is None else f"{row['name']}-{row['version']}" for row in (old, new)]
            made.append({"kind": kind, "before": labels[0], "after": labels[1]})
    return made
