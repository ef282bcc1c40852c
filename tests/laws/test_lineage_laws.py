"""Laws of the lineage, over histories that make sense and histories that don't, as of any position.

Everything is compared with an independent computation: the edges with the events and the fold, the walks with a closure
by brute force, the graph in PROV-O with SPARQL over its text.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.bank.lineage_graph import Branch, LineageGraph, TreeBounds
from rbank_es.events import (
    ArtifactMaterialised,
    ContextBuilt,
    Event,
    JudgmentOverruled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesRetrieved,
    RunJudged,
)
from rbank_es.law import fold, usage
from rbank_es.projections.item_spans import span_edges
from rbank_es.projections.lineage_edges import LineageEdge, LineageNode
from rbank_es.projections.provenance import PATH, RELATIONS, VOCABULARY, provenance
from rbank_es.projections.read_models import ReadModels
from rbank_es.projections.view import View
from tests.cli.misled import misled_bank
from tests.effort import examples
from tests.fakes import FakeLog
from tests.lineage_paths import followed
from tests.strategies import histories, stamped

logs = histories(
    min_size=8,
    max_size=40,
    chapters=(
        *("learned",) * 4,
        "other",
        "context",
        "context",
        "read",
        "retrieved",
        "judged",
        "judged",
        "ended",
        "corrected",
    ),
    erased=True,
).map(stamped)
law = settings(max_examples=examples(12), deadline=None)


@contextmanager
def lineage_of(log: Sequence[Event], position: int) -> Iterator[View]:
    with tempfile.TemporaryDirectory() as folder:
        models = ReadModels.open(Path(folder) / "projections.sqlite")
        source = FakeLog(log)
        models.catch_up(source)
        with models.as_of(position, source) as view:
            yield view


def recorded(log: Sequence[Event]) -> set[tuple[LineageNode, str, LineageNode]]:
    """The edges that single events say, by their plain definition."""
    found = set[tuple[str, str, str, str, str]]()
    for event in log:
        if isinstance(event, RunJudged | JudgmentOverruled):
            found.add(("run", event.run, "judged_by", "judgment", event.id))
        if isinstance(event, RunJudged):
            found |= {("item", item, "precedent_of", "judgment", event.id) for item in event.precedents}
            found |= {("call", call, "answered", "judgment", event.id) for call in event.calls}
            found |= {("run", event.run, "asked", "call", call) for call in event.calls}
        if isinstance(event, MemoriesExtracted):
            found |= {("run", run, "drawn_from", "extraction", event.id) for run in event.runs}
            found |= {("call", call, "answered", "extraction", event.id) for call in event.calls}
            found |= {("run", run, "asked", "call", call) for call in event.calls for run in event.runs}
            found |= {("judgment", each.judgment, "led_to", "extraction", event.id) for each in event.relied
                      if each.judgment is not None}  # fmt: skip
        if isinstance(event, ArtifactMaterialised) and event.run is not None:
            found.add(("run", event.run, "wrote", "artifact", event.id))
        if isinstance(event, ContextBuilt) and (event.items or event.artifacts):
            found |= {("item", item, "injected_in", "context", event.id) for item in event.items}
            found |= {("artifact", one, "summarised_in", "context", event.id) for one in event.artifacts}
            found.add(("context", event.id, "given_to", "run", event.run))
        if isinstance(event, MemoriesRetrieved):
            found |= {("item", hit.id, "hit_in", "retrieval", event.id) for hit in event.hits}
            found |= {("retrieval", event.id, "served", "run", event.run)} if event.run is not None else set()
    return {(LineageNode(a, b), how, LineageNode(c, d)) for a, b, how, c, d in found}


def derived(log: Sequence[Event]) -> set[tuple[LineageNode, str, LineageNode]]:
    """The edges that follow from earlier events, from the pure fold."""
    state = fold(log)
    found = set[tuple[LineageNode, str, LineageNode]]()
    for extraction, place in state.candidates:
        name = f"{extraction}#{place}"
        found.add((LineageNode("extraction", extraction), "drew", LineageNode("candidate", name)))
        if (extraction, place) in state.pairs:
            found.add((LineageNode("candidate", name), "decided_by", LineageNode("decision", name)))
    for item, runs in state.uses.items():
        found |= {(LineageNode("item", item), "used_in", LineageNode("run", run)) for run in runs}
    for id, entry in state.items.items():
        found |= {(LineageNode("item", by), "superseded", LineageNode("item", id)) for by in entry.superseded_by}
    return found


@law
@given(logs, st.data())
def test_the_edges_are_those_of_the_events_and_of_the_fold_as_of_any_position(
    log: list[Event], data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(log)))
    with lineage_of(log, position) as view:
        edges = list(view.edges())
        said = {(edge.source, edge.relation, edge.target) for edge in edges}
        wanted = recorded(log[:position]) | derived(log[:position])
        relations = {relation for _, relation, _ in wanted}
        assert {edge for edge in said if edge[1] in relations} == wanted
        assert {edge.relation for edge in edges} <= RELATIONS.keys()
        assert all(edge.seq <= position for edge in edges)
        state = fold(log[:position])
        born = Counter(target.name for _, relation, target in said if relation == "born_as")
        assert born == dict.fromkeys(state.items, 1)
        assert usage(state).keys() == {source.name for source, relation, _ in said if relation == "used_in"}


def test_births_and_supports_are_at_the_positions_of_their_decisions() -> None:
    """HEIGHT is born of one run and supported by another one, whose lesson was skipped."""
    with misled_bank("memory:") as bank, bank.as_of() as view:
        wanted = {
            (f"{event.extraction}#{made.candidate}", relation, target, event.seq)
            for event in bank.events(types={"memories_consolidated"})
            if isinstance(event, MemoriesConsolidated)
            for made in event.decisions
            for relation, target in [("born_as", made.item) if made.action == "add" else ("supports", made.targets[0])]
        }
        assert {relation for _, relation, _, _ in wanted} == {"born_as", "supports"}
        edges = [edge for edge in view.edges() if edge.relation in ("born_as", "supports")]
        assert {(edge.source.name, edge.relation, edge.target.name, edge.seq) for edge in edges} == wanted


@law
@given(logs, st.data())
def test_what_is_downstream_and_upstream_is_the_transitive_closure(log: list[Event], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(log)))
    with lineage_of(log, position) as view:
        edges = list(view.edges())
    pairs = {(edge.source, edge.target) for edge in edges}
    graph, nodes = LineageGraph(edges), sorted({node for pair in pairs for node in pair})
    closure = {start: followed(edges, start) for start in nodes}
    for start in nodes:
        effects, causes = graph.effects(start), graph.causes(start)
        assert set(effects.nodes) == closure[start]
        assert set(causes.nodes) == {cause for cause in nodes if start in closure[cause]}
        assert sum(effects.counts.values()) == len(effects.depths) - 1
        for node in effects.nodes:
            parent = effects.parent(node)
            assert (parent, node) in pairs and effects.depths[node] > effects.depths[parent]


@pytest.mark.slow
@law
@given(logs, st.integers(1, 4), st.integers(1, 3), st.integers(1, 12))
def test_a_tree_shows_each_node_once_and_counts_those_that_it_hides(
    log: list[Event], depth: int, width: int, nodes: int
) -> None:
    with lineage_of(log, len(log)) as view:
        graph = LineageGraph.of(view)
        starts = sorted({edge.source for edge in view.edges()})
    for start in starts[:5]:
        walk = graph.effects(start)
        branches = list(flat(walk.tree(TreeBounds(depth=depth, width=width, nodes=nodes))))
        shown = [branch.node for branch in branches]
        assert len(shown) == len(set(shown)) <= nodes + 1
        hidden = sum((Counter(branch.hidden) for branch in branches), Counter())
        assert hidden == Counter(node.kind for node in set(walk.depths) - set(shown))
        assert all(branch.depth <= depth and len(branch.branches) <= width for branch in branches)


def flat(branch: Branch) -> Iterator[Branch]:
    yield branch
    for each in branch.branches:
        yield from flat(each)


@pytest.mark.slow
@law
@given(logs, st.data())
def test_the_graph_in_prov_o_says_the_same_as_the_walk_in_sparql(log: list[Event], data: st.DataObject) -> None:
    import pyoxigraph

    with lineage_of(log, len(log)) as view:
        edges, text = list(view.edges()), "".join(provenance(view))
    store = pyoxigraph.Store()
    store.load(text.encode(), format=pyoxigraph.RdfFormat.TURTLE)
    every = "|".join(f"<{VOCABULARY}{name}>" for name in RELATIONS)
    path = "|".join(f"<{VOCABULARY}{name}>" for name in PATH)
    graph = LineageGraph(edges)
    for start in data.draw(st.lists(st.sampled_from(sorted({edge.source for edge in edges}) or [None]), max_size=4)):
        if start is None:
            continue
        rows = store.query(f"SELECT DISTINCT ?x {{ {iri(start)} ({path})*/({every}) ?x }}")
        found = {str(row["x"]) for row in rows} - {iri(start)}  # type: ignore[union-attr]
        assert {x for x in found if ":span:" not in x} == set(map(iri, graph.effects(start).nodes))


STEPS = (
    ("decision", "born_as", "item"), ("decision", "supports", "item"), ("correction", "made", "decision"),
    ("restoration", "restored", "item"), ("item", "used_in", "run"), ("item", "used_in", "run"),
    ("run", "drawn_from", "decision"), ("item", "superseded", "item"),
)  # fmt: skip


def random_edges(dice: random.Random) -> list[LineageEdge]:
    """Edges between few nodes at any positions: causes that came to an item early and late, and cycles."""
    made = []
    for _ in range(dice.randint(4, 22)):
        source, relation, target = dice.choice(STEPS)
        ends = (LineageNode(source, f"{dice.randint(1, 3)}"), LineageNode(target, f"{dice.randint(1, 3)}"))
        made.append(LineageEdge(ends[0], relation, ends[1], dice.randint(1, 30)))
    return made


def along(edges: Sequence[LineageEdge], start: LineageNode) -> set[LineageNode]:
    """What the path of the law above finds, without looking at positions."""
    found, reached = {start}, [start]
    for node in reached:
        for edge in edges:
            if edge.source == node:
                found.add(edge.target)
                if edge.relation in PATH and edge.target not in reached:
                    reached.append(edge.target)
    return {node for node in found if node.kind != "span"} - {start}


def test_paths_over_spans_need_no_positions_to_say_what_the_walk_and_brute_force_say() -> None:
    split = 0
    for seed in range(200):
        edges = random_edges(random.Random(seed))
        whole, graph = [*edges, *span_edges(edges)], LineageGraph(edges)
        nodes = {node for edge in edges for node in (edge.source, edge.target)}
        closure = {node: followed(edges, node) for node in nodes}
        for start in nodes:
            assert set(graph.effects(start).nodes) == along(whole, start) == closure[start], seed
            assert set(graph.causes(start).nodes) == {node for node in nodes if start in closure[node]}, seed
        split += any(edge.target.kind == "span" for edge in whole)
    assert split > 100


def iri(node: LineageNode) -> str:
    return f"<urn:rbank-es:{node.kind}:{quote(node.name, safe='')}>"


@pytest.mark.slow
def test_a_cycle_ends_a_walk_and_100_000_nodes_below_one_another_or_side_by_side_are_walked() -> None:
    def node(number: int) -> LineageNode:
        return LineageNode("run", str(number))

    chain = LineageGraph(LineageEdge(node(n), "drawn_from", node((n + 1) % 100_000), n) for n in range(100_000))
    walk = chain.effects(node(0))
    assert walk.counts == {"run": 99_999} and walk.depth == 99_999
    tree = walk.tree(TreeBounds(depth=3))
    assert tree.branches[0].branches[0].branches[0].hidden == {"run": 99_996}
    star = LineageGraph(LineageEdge(node(0), "drawn_from", node(n), n) for n in range(1, 100_001))
    tree = star.effects(node(0)).tree()
    assert len(tree.branches) == 10 and tree.hidden == {"run": 99_990}
