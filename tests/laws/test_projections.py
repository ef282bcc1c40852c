"""Laws of the read models, over histories that make sense and histories that don't."""

from __future__ import annotations

import itertools
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.events import Event, PolicySet
from rbank_es.law import Due, State, active, counted_uses, fold, usage, wins
from rbank_es.policies import Bm25V1, Bm25V2, RetrievalPolicy
from rbank_es.projections import all_projections, projection
from rbank_es.projections.read_models import ReadModels, rebuild
from rbank_es.projections.view import View
from tests.effort import examples
from tests.fakes import FakeLog, dump, shown
from tests.policies.proven_rank import ProvenRanking
from tests.pools import DOMAINS, WORDS
from tests.strategies import histories, stamped

logs = histories(min_size=5, max_size=40, erased=True).map(stamped)
memories = histories(
    min_size=8,
    max_size=30,
    chapters=(*("learned",) * 4, "consolidated", "ended", "ended", "judged", "judged", "again", "corrected"),
    erased=True,
).map(stamped)
cuts = st.lists(st.integers(0, 80), max_size=4)
law = settings(max_examples=examples(40), deadline=None)


@contextmanager
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "projections.sqlite"


def bounds(events: Sequence[Event], chosen: Sequence[int]) -> list[int]:
    return sorted({min(cut, len(events)) for cut in chosen} | {len(events)})


def assert_equals_state(view: View, state: State) -> None:
    """Everything that the views and the fold both know is the same."""
    assert view.usage() == usage(state)
    items = {row["id"]: row for row in view.rows("items")}
    assert items == {id: items[id] | item_row(state, id) for id in state.items}
    chosen = {row["kind"]: (row["name"], row["version"], json.loads(row["settings"])) for row in view.rows("policies")}
    policies = state.policies.items()
    assert chosen == {
        k: (choice.name, choice.version, json.loads(json.dumps(choice.settings))) for k, choice in policies
    }
    runs = {row["run"]: row for row in view.rows("runs")}
    assert runs == {run: runs[run] | run_row(state, run) for run in state.runs}
    assert {(row["kind"], row["id"], row["place"]) for row in view.rows("due")} == due_rows(state.due)
    found = {hit.id for hit in view.search(" ".join(WORDS), limits.SEARCH_HITS, policy=Bm25V1(stop_words="none"))}
    assert found <= active(state).keys()


def due_rows(due: Due) -> set[tuple[str, str, int]]:
    bank = {("bank", "", 0)} if due.whole else set()
    causes = {("cause", cause, 0) for cause in due.causes}
    acts = {("item", item, 0) for item in due.items} | {("run", run, 0) for run in due.runs}
    return {("candidate", *pair) for pair in due.pairs} | acts | causes | bank


def item_row(state: State, id: str) -> dict[str, Any]:
    entry = state.items[id]
    item = entry.item
    return {
        "id": id,
        "title": item.title,
        "desc": item.desc,
        "content": item.content,
        "src": item.src,
        "polarity": item.polarity,
        "role": item.role,
        "scope": item.scope,
        "domain": item.domain,
        "domains": json.dumps(entry.domains, separators=(",", ":"), ensure_ascii=False),
        "vouched": entry.vouched,
        "superseded_by": json.dumps(entry.superseded_by, separators=(",", ":"), ensure_ascii=False),
        "state": entry.state,
        "support": entry.support,
        "uses": len(counted_uses(state).get(id, ())),
        "wins": wins(state, id),
        "losses": losses(state, id),
        "born_seq": entry.born_seq,
        "ended_seq": entry.ended_seq,
        "extraction": entry.extraction,
        "erased": entry.erased,
    }


def run_row(state: State, id: str) -> dict[str, Any]:
    run = state.runs[id]
    learning, scoring = state.verdicts.get((id, "learning")), state.verdicts.get((id, "scoring"))
    return {name: getattr(run, name) for name in run.__struct_fields__} | {
        "verdict": learning.verdict if learning else None,
        "judge": learning.judge if learning else None,
        "kind": learning.kind if learning else None,
        "sure": learning.sure if learning else None,
        "score": scoring.verdict if scoring else None,
        "steps": len(state.run_records[id].steps),
    }


def losses(state: State, id: str) -> int:
    judged = (state.verdicts.get((run, "learning")) for run in counted_uses(state).get(id, ()))
    return sum(verdict is not None and verdict.verdict == "failure" for verdict in judged)


@law
@given(logs, cuts, st.integers(1, 7))
def test_live_equals_rebuild_equals_fold(log: list[Event], chosen: list[int], size: int) -> None:
    """However the log is cut into calls and batches, the rows are those of a rebuild and say what the fold says.

    So does a copy in memory of a file that is behind.
    """
    with place() as path, patch.object(projection, "BATCH_EVENTS", size):
        models, fake = ReadModels.open(path), FakeLog(log)
        for cut in bounds(log, chosen):
            models.catch_up(fake, upto=cut)
        other = path.with_name("rebuilt.sqlite")
        rebuild(other, fake)
        assert dump(path) == dump(other)
        with models.live() as view:
            assert_equals_state(view, fold(log))
        behind = ReadModels.open(path.with_name("behind.sqlite"))
        behind.catch_up(fake, upto=bounds(log, chosen)[0])
        with behind.as_of(len(log), fake) as copied:
            assert_equals_state(copied, fold(log))


@law
@given(logs)
def test_every_prefix_equals_the_fold_of_that_prefix(log: list[Event]) -> None:
    """A file that holds the whole log answers as of every position what the fold of that prefix says."""
    with place() as path:
        models = ReadModels.open(path)
        models.catch_up(FakeLog(log))
        for cut in range(len(log) + 1):
            with models.as_of(cut) as view:
                assert_equals_state(view, fold(log[:cut]))


@law
@given(logs, cuts)
def test_as_of_equals_a_replay_up_to_there(log: list[Event], chosen: list[int]) -> None:
    """Every named view shows, as of a position, what it shows in a file that was replayed to that position."""
    with place() as path:
        models, replayed = ReadModels.open(path), path.with_name("replayed.sqlite")
        models.catch_up(FakeLog(log))
        for cut in bounds(log, chosen):
            rebuild(replayed, FakeLog(log), upto=cut)
            with models.as_of(cut) as then, ReadModels.open(replayed).live() as now:
                assert now.position == cut
                assert shown(then) == shown(now)


def plain(path: Path) -> dict[str, list[str]]:
    """What somebody sees who opens the file with any SQLite tool."""
    views = [view for projection in all_projections() for view in projection.views]
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return {name: sorted(repr(dict(row)) for row in connection.execute(f"SELECT * FROM {name}")) for name in views}


@law
@given(logs)
def test_the_views_in_the_file_show_the_present(log: list[Event]) -> None:
    """The plain SQL views equal what a `View` at the newest position reads."""
    with place() as path:
        models = ReadModels.open(path)
        models.catch_up(FakeLog(log))
        with models.live() as view:
            seen = shown(view)
        del seen["usage"]
        assert plain(path) == seen


@law
@given(logs, cuts)
def test_nothing_is_overwritten_but_an_open_end(log: list[Event], chosen: list[int]) -> None:
    """A row once written stays, its key and values with it; at most its `to_seq`, if it was NULL, is set."""
    with place() as path:
        models, fake = ReadModels.open(path), FakeLog(log)
        before: dict[str, list[tuple[object, ...]]] = {}
        for cut in bounds(log, chosen):
            models.catch_up(fake, upto=cut)
            after = dump(path)
            for name, rows in before.items():
                now = {row[:-1]: row[-1] for row in after[name]}
                for *values, end in rows:
                    assert tuple(values) in now, name
                    assert end in (None, now[tuple(values)]), name
            before = after


queries = st.lists(st.sampled_from((*WORDS, "café", "OR", '"', "sparql", "σίσυφος")), min_size=1, max_size=4).map(
    " ".join
)
policies = st.builds(
    Bm25V1,
    weights=st.sampled_from(((1.0, 1.0, 1.0, 1.0), (4.0, 2.0, 1.0, 0.5), (0.0, 1.0, 0.0, 1.0))),
    stop_words=st.sampled_from(("english-1", "none")),
    # So that a domain narrows, as the other filters do.
    domains=st.just("filter"),
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "polarity": st.sampled_from(("success", "failure")),
        "domain": st.sampled_from(DOMAINS),
        "role": st.just("planner"),
    },
)


@law
@given(memories, cuts, st.lists(queries, min_size=1, max_size=4), policies, filters, st.integers(1, 6))
def test_ranking_as_of_equals_ranking_replayed(
    log: list[Event], chosen: list[int], asked: list[str], policy: Bm25V1, filters: dict[str, str], k: int
) -> None:
    """Ids, order and exact scores, live and as of, whether the index was grown, rebuilt or made for the view."""
    with place() as path, patch.object(projection, "BATCH_EVENTS", 3):
        models, replayed = ReadModels.open(path), path.with_name("replayed.sqlite")
        for cut in bounds(log, chosen):
            models.catch_up(FakeLog(log), upto=cut)
        for cut in bounds(log, chosen):
            rebuild(replayed, FakeLog(log), upto=cut)
            with models.as_of(cut) as then, ReadModels.open(replayed).live() as now:
                for query in asked:
                    found = then.search(query, k, policy=policy, **filters)
                    assert found == now.search(query, k, policy=policy, **filters)
                    assert found == sorted(found, key=lambda hit: (hit.score, hit.id))


def fits(item: dict[str, Any], name: str, value: str) -> bool:
    return value in json.loads(item["domains"]) if name == "domain" else bool(item[name] == value)


@law
@given(memories, queries, policies, filters)
def test_filters_narrow_and_change_no_score(
    log: list[Event], query: str, policy: Bm25V1, filters: dict[str, str]
) -> None:
    """What a filtered search finds is what an unfiltered one finds, less what doesn't fit."""
    with place() as path:
        models = ReadModels.open(path)
        models.catch_up(FakeLog(log))
        with models.live() as view:
            every = view.search(query, limits.SEARCH_HITS, policy=policy)
            some = view.search(query, limits.SEARCH_HITS, policy=policy, **filters)
            items = {row["id"]: row for row in view.rows("items")}
        fitting = [hit for hit in every if all(fits(items[hit.id], name, value) for name, value in filters.items())]
        assert [(hit.id, hit.score) for hit in some] == [(hit.id, hit.score) for hit in fitting]
        assert all(items[hit.id]["state"] == "active" for hit in every)
        assert not {hit.src for hit in every} & {"principle", "episode"}


@law
@given(memories | logs)
def test_positions_at_which_memory_changed_and_spans_of_items_are_those_of_the_fold(events: list[Event]) -> None:
    """Between two of them no search can find something else; an item is active in its spans, and nowhere else."""
    states = [fold(events[:position]) for position in range(len(events) + 1)]
    searched = [
        ({id: (item, state.items[id].domains) for id, item in active(state).items()}, state.policies.get("retrieval"))
        for state in states
    ]
    with place() as path, ReadModels.open(path) as models:
        models.catch_up(FakeLog(events))
        with models.live() as view:
            for after in (0, len(events) // 2):
                changed = {at for at in range(after + 1, len(events) + 1) if searched[at] != searched[at - 1]}
                told = view.memory_changes(after)
                assert changed <= set(told) and told == sorted(set(told)) and all(at > after for at in told)
            for id in states[-1].items:
                spans = [range(begin, end or len(states)) for begin, end in view.active_spans(id)]
                assert all(one.stop < next_.start for one, next_ in itertools.pairwise(spans))
                inside = [any(at in span for span in spans) for at in range(len(states))]
                assert inside == [id in active(state) for state in states]


@settings(max_examples=examples(15), deadline=None)
@given(
    histories(
        min_size=8, max_size=24, chapters=("learned", "learned", "consolidated", "again", "judged", "judged", "context")
    ),
    st.sampled_from((ProvenRanking(), Bm25V2(support=1.0, coverage=0.0, share_of_best=0.0))),
    st.sampled_from(WORDS),
)
def test_a_search_that_weighs_outcomes_changes_only_where_memory_did(
    history: list[Event], ranking: RetrievalPolicy, word: str
) -> None:
    """Also support, uses and verdicts are then what a search goes by; against the search at every position."""
    events = stamped(
        [PolicySet(policies=(ranking.choice,)), *(each for each in history if not isinstance(each, PolicySet))]
    )
    with place() as path, ReadModels.open(path) as models:
        models.catch_up(FakeLog(events))
        found = []
        for position in range(1, len(events) + 1):
            with models.as_of(position) as view:
                found.append([(hit.id, hit.score) for hit in view.search(word, limits.SEARCH_HITS)])
        with models.live() as view:
            told = set(view.memory_changes(1))
    assert {at for at in range(2, len(events) + 1) if found[at - 1] != found[at - 2]} <= told
