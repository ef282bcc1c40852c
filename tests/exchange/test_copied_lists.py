"""Lists of items that go from bank to bank: once the banks know each other, it is as if there had been no list."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.events import MemoriesExtracted, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.exchange import ImportReport, import_paths
from rbank_es.exchange.exporters import export, export_files
from rbank_es.law import Append, DedupV2, ItemState, State
from rbank_es.law.law_versions import LawV2
from tests.effort import examples

RUNS = range(4)
ITEMS = [
    Item.make("Sort by price", "Read the café's first row.\nThen the second.", "success"),
    Item.make("Look for the legend", "Colours are explained at the edge of the map.", "success"),
    Item.make("Ask which unit was meant", "Feet are no metres.", "success"),
]
_files = count()


def listed(bank: Bank) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(b"".join(export(bank, None, "items")))
    return found


def take(bank: Bank, folder: Path, entries: Sequence[dict[str, Any]]) -> ImportReport:
    path = folder / f"list-{next(_files)}.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return import_paths(bank, [path])


def _with_words(change: Callable[[str], str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda entry: entry | {name: change(entry[name]) for name in ("title", "desc", "content")}


SAVED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "as it was": dict,
    "decomposed": _with_words(lambda text: unicodedata.normalize("NFD", text)),
    "line ends": _with_words(lambda text: text.replace("\n", "\r\n")),
    "blanks at the end": _with_words(lambda text: text and text + " \n"),
    "wider": _with_words(lambda text: text.replace(" ", "  ")),
}


def _standing(state: State) -> dict[str, ItemState]:
    return {id: entry for id, entry in state.items.items() if entry.state != "unsupported"}


# ---------------------------------------------------------------- the law

Op = tuple[Any, ...]
banks = st.integers(0, 2)
LISTS = st.tuples(st.just("list"), banks, banks, st.sampled_from(sorted(SAVED)))
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.sampled_from(RUNS), st.integers(0, len(ITEMS) - 1)),
        LISTS,
        LISTS,
        st.tuples(st.just("absorb"), banks, banks),
        st.tuples(st.just("send"), banks, banks, st.sampled_from(("reasoningbank", "events"))),
        st.tuples(st.just("overrule"), st.sampled_from(RUNS), st.sampled_from(("failure", "success"))),
        st.tuples(st.just("undo"), st.sampled_from(RUNS)),
        st.tuples(st.just("retract"), st.integers(0, len(ITEMS) - 1)),
    ),
    min_size=3,
    max_size=10,
)


class World:
    """Three banks, each with runs of its own; with lists between them, or without."""

    def __init__(self, folder: Path, stack: ExitStack, policy: Append | DedupV2, *, lists: bool) -> None:
        self._folder, self._lists = folder, lists
        rules = (policy.choice, LawV2().choice)
        self.banks = [stack.enter_context(Bank.create("memory:", policies=rules)) for _ in range(3)]
        self._begun: set[int] = set()
        self._taught: list[set[int]] = [set(), set(), set()]

    def do(self, op: Op) -> None:
        getattr(self, op[0])(*op[1:])

    def _of(self, run: int) -> Bank:
        return self.banks[run % 3]

    def learn(self, run: int, item: int) -> None:
        bank, taught = self._of(run), ITEMS[item]
        if run not in self._begun:
            self._begun.add(run)
            self.begin(bank, f"r{run}")
        self._taught[run % 3].add(item)
        bank.remember(taught.title, taught.content, src="success", runs=[f"r{run}"])

    @staticmethod
    def begin(bank: Bank, run: str) -> None:
        judgment = RunJudged(run=run, purpose="learning", verdict="success", judge="me", judge_version="1", kind="lm")
        bank.append([RunStarted(run=run, task=f"task {run}"), judgment])

    @classmethod
    def teach(cls, bank: Bank, run: str, item: Item) -> None:
        cls.begin(bank, run)
        bank.remember(item.title, item.content, src="success", runs=[run])

    def list(self, source: int, to: int, saved: str) -> None:
        if self._lists:
            take(self.banks[to], self._folder, [SAVED[saved](entry) for entry in listed(self.banks[source])])

    def absorb(self, source: int, to: int) -> None:
        if source != to:
            self.banks[to].absorb(self.banks[source])

    def send(self, source: int, to: int, form: str) -> None:
        for number, (name, pieces) in enumerate(list(export_files(self.banks[source], None, form))):
            if data := b"".join(pieces):
                path = self._folder / f"sent-{next(_files)}-{number}-{name}"
                path.write_bytes(data)
                import_paths(self.banks[to], [path])

    def overrule(self, run: int, verdict: str) -> None:
        if run in self._begun:
            self._of(run).overrule(f"r{run}", verdict, reason="seen", by="ann")  # type: ignore[arg-type]

    def undo(self, run: int) -> None:
        log = self._of(run).events(types={"memories_extracted"})
        drawn = [each.seq for each in log if isinstance(each, MemoriesExtracted) and each.runs == (f"r{run}",)]
        if drawn:
            self._of(run).undo(drawn[-1], 0, by="ann", because="a slip")

    def retract(self, item: int) -> None:
        if item in self._taught[0]:
            self.banks[0].append({"type": "memories_retracted", "ids": [ITEMS[item].id]})

    def meet(self) -> list[dict[str, int | str]]:
        """Let all banks absorb each other; return what each of them holds."""
        for _ in range(2):
            for source, to in permutations(range(3), 2):
                self.absorb(source, to)
        states = [bank.state() for bank in self.banks]
        return [
            {id: it.support if it.state == "active" else it.state for id, it in items.items()}
            for items in map(_standing, states)
        ]


@pytest.mark.slow
@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from((Append(), DedupV2())), OPS, st.lists(st.sampled_from(RUNS), max_size=3))
@example(Append(), [("learn", 0, 0), ("list", 0, 1, "as it was"), ("absorb", 1, 0)], [0])
@example(DedupV2(), [("learn", 0, 0), ("list", 0, 1, "decomposed"), ("list", 1, 2, "wider"), ("absorb", 2, 0)], [0])
def test_once_the_banks_know_each_other_lists_changed_nothing(
    tmp_path_factory: pytest.TempPathFactory, policy: Append | DedupV2, ops: list[Op], overruled: list[int]
) -> None:
    """Neither support nor who stands; nor do they keep what an overrule then takes back."""
    folder = tmp_path_factory.mktemp("law")
    with ExitStack() as stack:
        worlds = [World(folder, stack, policy, lists=lists) for lists in (True, False)]
        for each in worlds:
            for op in ops:
                each.do(op)
        with_lists, without = [each.meet() for each in worlds]
        assert with_lists == without
        assert with_lists[0] == with_lists[1] == with_lists[2]
        for each in worlds:
            for run in overruled:
                each.overrule(run, "failure")
        assert worlds[0].meet() == worlds[1].meet()


# ---------------------------------------------------------------- entries

ENTRY = {"title": "Read the café's first row", "content": "Sort by price.\nThen read.", "src": "seed"}


@pytest.fixture(params=[Append(), DedupV2()], ids=["append", "dedup"])
def bank(request: pytest.FixtureRequest) -> Iterator[Bank]:
    with Bank.create("memory:", policies=(request.param.choice,)) as made:
        yield made


def support(bank: Bank) -> list[int]:
    return [entry.support for entry in bank.state().items.values()]


def test_what_was_erased_here_comes_back_by_no_list_of_another_bank(bank: Bank, tmp_path: Path) -> None:
    World.teach(bank, "r", ITEMS[0])
    with Bank.create("memory:") as other:
        take(other, tmp_path, listed(bank))
        bank.erase(item=ITEMS[0].id, reason="asked for")
        bank.absorb(other)
        take(bank, tmp_path, listed(other))
        [entry] = bank.state().items.values()
        assert (entry.erased, entry.support) == (True, 1)
        assert listed(bank) == []
