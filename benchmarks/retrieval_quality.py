"""Measure how well policies retrieve, on labelled cases: the settings of bm25-2 were chosen by this.

    python -m benchmarks.retrieval_quality                     the shipped sets
    python -m benchmarks.retrieval_quality --real FOLDER       also one made of the tasks and memories in a data folder
    python -m benchmarks.retrieval_quality --grid              the choice of settings again, on the half that is for it

The first sets have two halves, by a hash of the case id. Settings were chosen on one, and both are shown.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from benchmarks.measure import Goal, Row
from rbank_es.data import LIGHTS, lights
from rbank_es.events.items import Item, Polarity
from rbank_es.lab.retrieval_comparison import RetrievalComparison, compare_retrieval, injection_shares
from rbank_es.law import ItemState
from rbank_es.policies import Bm25V1, Bm25V2, Bm25V3, Filters, RetrievalPolicy
from rbank_es.policies.retrieval_quality import CaseQuality, RelevanceCase, evaluate, read_cases
from rbank_es.projections.in_memory_items import ActiveItems

LUCENE = Bm25V2(weights=(1.0, 1.0, 1.0, 1.0), parts=0.0, stop_weight=0.0, k1=1.2, b=0.75)
"""bm25-1 with Lucene's idf, and nothing else changed."""

CONFIGURATION_C = Bm25V2(weights=(3.0, 2.0, 1.0, 1.0), parts=1.0, stop_weight=0.4, k1=0.8, b=0.5)
"""The best of earlier measurements, on other data."""

POLICIES: Mapping[str, RetrievalPolicy] = {
    "bm25-1": Bm25V1(),
    "Lucene's idf alone": LUCENE,
    "configuration C": CONFIGURATION_C,
    "bm25-2": Bm25V2(),
    "bm25-3": Bm25V3(),
}


HERE = Path(__file__).parent
QUERIES = "queries of one suite"
"""The name of a set that has no unrelated questions."""


class RelevanceSet(NamedTuple):
    """Items of one bank, and cases about them. A part is a half of the cases, or how their ids begin: "" for all."""

    name: str
    items: Sequence[Item]
    cases: Sequence[RelevanceCase]
    parts: Sequence[str] = ("chosen", "unseen")


# ---------------------------------------------------------------- the sets


def lessons() -> RelevanceSet:
    """Return the shipped lessons with their cases: written by hand, labelled by what a right query needs."""
    items = [_item(row) for row in json.loads(lights().lessons.read_bytes())]
    return RelevanceSet("lessons", items, read_cases(lights().cases.read_bytes()))


def invented(name: str) -> RelevanceSet:
    """Return lessons about an invented library or kitchen, whose questions were written before floors were measured.

    Their cases are `related`, `unrelated`, and `near-miss`: questions of the field that no lesson helps.
    """
    items = [_item(row) for row in json.loads((HERE / f"{name}_lessons.json").read_bytes())]
    return RelevanceSet(name, items, read_cases((HERE / f"{name}_cases.jsonl").read_bytes()), ("",))


def general() -> RelevanceSet:
    """Return the shipped pack of general advice with the questions of the suite, none of which is labelled."""
    items = [_item(row) for row in json.loads(lights().seed.read_bytes())]
    cases = [replace(case, relevant=()) for case in lessons().cases if case.id.startswith("lights-")]
    return RelevanceSet("general advice", items, cases, ())


def queries() -> RelevanceSet:
    """Return an item for each task of the shipped suite, its query with the trap; it helps the others of its family."""
    tasks = json.loads(lights().suite.read_bytes())["tasks"]
    items = [
        Item.make(task["question"], task["gold_sparql"], desc=task["trap"], id=task["id"], domain=LIGHTS)
        for task in tasks
    ]
    families = {task["id"]: task["family"] for task in tasks}

    def alike(one: str, two: str) -> bool:
        return families[one] == families[two]

    cases = [_left_out(task["id"], task["question"], alike, families) for task in tasks]
    return RelevanceSet(QUERIES, items, cases)


_TERM = re.compile(r"\b(prov|brick|soda|up|taxon|faldo|skos|ex|rec):([A-Za-z]\w*)")


def real(folder: Path) -> RelevanceSet:
    """Return the tasks of the data folder as items, their queries; one helps another that needs half of its terms.

    With them come the items that an agent drew and the seeds, which help the tasks that they were drawn from.
    """
    made = _json(folder / "tasks/ontology_tasks.json")["tasks"]
    tasks = {task["id"]: (task["question"], task["gold_sparql"]) for task in made}
    subset = _json(folder / "tasks/uniprot_subset_tasks.json")
    tasks |= {task["id"]: (task["query"], task["expected_sparql"]) for task in subset}
    terms = {id: frozenset(_TERM.findall(query)) for id, (_, query) in tasks.items()}
    items = [Item.make(question, query, id=id) for id, (question, query) in tasks.items()]
    drawn: dict[str, list[str]] = {}
    for path in sorted((folder / "memory").glob("*.json")):
        for row in _json(path):
            question = row["desc"].partition(": ")[2]
            for id, (asked, _) in tasks.items():
                if question and asked.startswith(question):
                    drawn.setdefault(id, []).append(row["id"])
            # Without the description, which quotes the question.
            items.append(_item(row | {"desc": ""}))

    def alike(one: str, two: str) -> bool:
        common = len(terms[one] & terms[two])
        return common > 0 and 2 * common >= min(len(terms[one]), len(terms[two]))

    cases = []
    for id, (question, _) in tasks.items():
        case = _left_out(id, question, alike, tasks)
        cases.append(replace(case, relevant=(*case.relevant, *drawn.get(id, ()))))
    return RelevanceSet("real tasks", items, [case for case in cases if case.relevant])


def _left_out(id: str, question: str, alike: Callable[[str, str], bool], ids: Iterable[str]) -> RelevanceCase:
    relevant = tuple(other for other in ids if other != id and alike(id, other))
    return RelevanceCase(id=id, query=question, relevant=relevant, without=(id,))


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _item(row: Mapping[str, Any]) -> Item:
    tags = row["tags"] if isinstance(row["tags"], list) else json.loads(row["tags"])
    facts = {name: row[name] for name in ("id", "polarity", "domain") if name in row}
    return Item.make(row["title"], row["content"], row["src"], desc=row["desc"], tags=tuple(tags), **facts)


# ---------------------------------------------------------------- the measurement


class Bench:
    """The items of a set, indexed, to be searched by any policy."""

    def __init__(self, held: RelevanceSet) -> None:
        """Index the items."""
        self.held = held
        self._index = ActiveItems(lambda _: (0, 0))
        self._index.update(
            (
                item.id,
                ItemState(
                    item=item, born_seq=1, extraction="e", rank=(1, 0), domains=cast("tuple[str]", (item.domain,))
                ),
            )
            for item in held.items
        )

    def measured(self, policy: RetrievalPolicy, part: str) -> tuple[CaseQuality, ...]:
        """Return the measures of a policy on a part of the cases."""

        def search(case: RelevanceCase, k: int, polarity: Polarity | None) -> list[str]:
            without, unasked = frozenset(case.without), polarity is not None
            filters = Filters(polarity=polarity, ontology=case.domain, without=without, unasked=unasked)
            return [hit.id for hit in policy.choose(case.query, k, filters, self._index).hits]

        cases = [case for case in self.held.cases if part == case.half or case.id.startswith(part)]
        return evaluate(policy, cases, search)


def table(bench: Bench) -> Iterator[str]:
    """Yield the lines of a Markdown table: every policy on each part, with its paired difference from bm25-1."""
    yield f"\n{bench.held.name}: {len(bench.held.items)} items, {len(bench.held.cases)} cases, ranked without a floor\n"
    yield "| part | policy | hit@1 | recall@10 | reciprocal rank | less bm25-1's recall@10 |"
    yield "|---|---|---|---|---|---|"
    for part in bench.held.parts:
        plain = bench.measured(POLICIES["bm25-1"], part)
        for name, policy in POLICIES.items():
            ranked = bench.measured(policy.without_floor(), part)
            yield f"| {part or 'all'} | {name} | {_cells(compare_retrieval(plain, ranked))} |"


def given_table(bench: Bench) -> Iterator[str]:
    """Yield the lines of a Markdown table: what runs would be given unasked, by the floor of each policy."""
    yield "\n| part | policy | precision | coverage | questions without a lesson that are given something |"
    yield "|---|---|---|---|---|"
    kinds = {kind for kind in ("near-miss", "unrelated", "lights") if bench.held.parts != ("chosen", "unseen")}
    for part in (*bench.held.parts, *sorted(kinds)):
        for name in ("bm25-1", "bm25-2", "bm25-3"):
            shares = injection_shares(bench.measured(POLICIES[name], part))
            if not shares.counts.related + shares.counts.unrelated:
                continue
            cells = " | ".join(_share(each) for each in (shares.precision, shares.coverage, shares.disturbed))
            yield f"| {part or 'all'} | {name} | {cells} |"


def floor_table(benches: Sequence[Bench]) -> Iterator[str]:
    """Yield the lines of a Markdown table: what runs would be given by lower floors, over several sets together."""
    yield f"\n{', '.join(bench.held.name for bench in benches)}\n"
    yield "| coverage at least | precision | coverage | unrelated | near misses |"
    yield "|---|---|---|---|---|"
    for least in (0.45, 0.4, 0.35, 0.3, 0.25):
        measured = [case for bench in benches for case in bench.measured(Bm25V2(coverage=least), "")]
        shares = injection_shares(measured)
        near = sum(bool(case.given) for case in measured if case.id.startswith("near-miss"))
        cells = [_share(shares.precision), _share(shares.coverage), str(shares.counts.disturbed - near), str(near)]
        yield f"| {least} | {' | '.join(cells)} |"


def _share(found: tuple[float, float, float] | None) -> str:
    return "" if found is None else "{:.2f} [{:.2f}, {:.2f}]".format(*found)


def _cells(found: RetrievalComparison) -> str:
    means = " | ".join(f"{measure.second:.3f}" for measure in found.measures)
    gains = ", ".join(_ends(measure) for measure in found.measures if measure.measure == "recall")
    return f"{means} | {gains}"


def _ends(measure: Any) -> str:
    found = measure.difference
    return "" if found is None or found.low is None else f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def rows() -> Iterator[Row]:
    """Yield the goals on each labelled set: of what is given unasked, and of what is ranked among the first ten."""
    for bench in map(Bench, (lessons(), queries(), invented("library"), invented("kitchen"))):
        for part in bench.held.parts:
            yield from _goals(bench, part, f"{bench.held.name}, {part or 'never chosen by'}")


def _goals(bench: Bench, part: str, name: str) -> Iterator[Row]:
    plain, ours = bench.measured(Bm25V1(), part), bench.measured(Bm25V2(), part)
    if bench.held.name != QUERIES:
        before, shares = injection_shares(plain), injection_shares(ours)
        unrelated = [case for case in ours if not case.related and not case.id.startswith("near-miss")]
        disturbed = sum(bool(case.given) for case in unrelated)
        for what, least in (("precision", 0.9), ("coverage", 0.5)):
            one, other = getattr(shares, what), getattr(before, what)
            goal, value = Goal("≥", least, "of those given" if what == "precision" else "of questions"), one and one[0]
            asked, peer = f"{name}: {what} of what is given unasked", f"bm25-1 {_share(other)}"
            yield Row("retrieval", asked, ours=_share(one), peer=peer, goal=goal, value=value)
        what = f"{name}: unrelated questions that are given something"
        yield Row("retrieval", what, f"{disturbed} of {len(unrelated)}", goal=Goal("≤", 0, "given"), value=disturbed)
    found = compare_retrieval(plain, bench.measured(Bm25V2().without_floor(), part))
    recall = next(measure for measure in found.measures if measure.measure == "recall")
    peer, what = f"bm25-1 {recall.first:.3f}", f"{name}: recall among ten, nothing withheld"
    yield Row("retrieval", what, ours=f"{recall.second:.3f}", peer=peer, floor=_ends(recall))


GRID = {
    "weights": [(1.0, 1.0, 1.0, 1.0), (2.0, 1.0, 1.0, 1.0), (2.0, 1.5, 1.0, 1.0), (3.0, 2.0, 1.0, 1.0)],
    "parts": [0.0, 0.5, 1.0],
    "stop_weight": [0.0, 0.1, 0.2, 0.3, 0.4, 0.6],
    "k1": [0.6, 0.8, 1.2],
    "b": [0.3, 0.5, 0.75],
}


def grid(benches: Sequence[Bench]) -> Iterator[str]:
    """Yield every combination of settings by its mean recall and hit@1 over the sets, on the half for choosing."""
    rows = []
    for values in product(*GRID.values()):
        policy = Bm25V2(**dict(zip(GRID, values, strict=True))).without_floor()  # type: ignore[arg-type]
        scores = []
        for bench in benches:
            related = [case for case in bench.measured(policy, "chosen") if case.related]
            scores.append(sum(case.recall + case.reciprocal for case in related) / len(related) / 2)
        rows.append((sum(scores) / len(scores), scores, values))
    for mean, scores, values in sorted(rows, reverse=True, key=lambda row: row[0]):
        yield f"{mean:.4f}  {' '.join(f'{score:.3f}' for score in scores)}  {dict(zip(GRID, values, strict=True))}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, metavar="FOLDER")
    parser.add_argument("--grid", action="store_true")
    options = parser.parse_args()
    sets = [lessons(), queries(), *([real(options.real)] if options.real else [])]
    if not options.grid:
        sets += [invented("library"), invented("kitchen"), general()]
    benches = [Bench(held) for held in sets]
    if options.grid:
        for line in grid(benches):
            print(line)
        return
    for bench in benches:
        print("\n".join([*table(bench), *given_table(bench)]))
    print("\n".join(floor_table([bench for bench in benches if bench.held.name in ("lessons", "library", "kitchen")])))


if __name__ == "__main__":
    main()
