"""The parts of what takes longest, by processor seconds: what a goal that is missed would take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import force_setattr

from benchmarks.corpus import make_bank
from benchmarks.measure import Row, collected_as_in_the_command, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.bank import absorption
from rbank_es.bank.corrector import Corrector
from rbank_es.bank.supposed_history import SupposedHistory
from rbank_es.bank.what_if import _Comparison
from rbank_es.law.decisions import Decider
from rbank_es.log.file.file_log import FileLog
from rbank_es.projections.memory_index import MEMORY_INDEX
from rbank_es.projections.read_models import rebuild

EVENTS = 40_000


class Part(NamedTuple):
    """A part of some work: its name, and the function of an object that does it."""

    name: str
    owner: Any
    function: str


ABSORBED = (
    Part("what is new is found", absorption, "plan_absorption"),
    Part("candidates are compared", Decider, "decided"),
    Part("groups are checked, encoded, written", FileLog, "append"),
    Part("what verdicts leave due is looked for", Corrector, "correct"),
)
SUPPOSED = (
    Part("corrections", SupposedHistory, "_reconcile"),
    Part("searches", _Comparison, "_search"),
)


class Meter:
    """Processor seconds by part; those of a part within another one count for the inner one alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner = [0.0]

    def of(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does some work and counts its seconds."""

        def counted(*given: Any, **named: Any) -> Any:
            begin = time.process_time()
            self._inner.append(0.0)
            try:
                return work(*given, **named)
            finally:
                took = time.process_time() - begin
                self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inner.pop()
                self._inner[-1] += took

        return counted


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row for a rebuild, an absorption and a supposition, with their parts."""
    length = min(EVENTS, sizes.events)
    policies = {"retrieval": {"name": "bm25", "version": 2}}
    with (
        make_bank(place / "bank", length) as bank,
        make_bank(place / "ranked", length, policies) as ranked,
        Bank.create(place / "new") as new,
        collected_as_in_the_command(),
    ):
        yield _row(f"a rebuild of {length:,} events", lambda: rebuild(place / "made.sqlite", bank.log), _indexing)
        yield _row(f"an absorption of {length:,} events", lambda: new.absorb(bank), lambda _: _patched(_, ABSORBED))
        append = {"consolidation": {"name": "append"}}
        yield _row(
            f"what-if of {length:,} events", lambda: ranked.whatif(policies=append), lambda _: _patched(_, SUPPOSED)
        )


def _row(what: str, work: Callable[[], object], metered: Callable[[Meter], Any]) -> Row:
    meter = Meter()
    with metered(meter):
        begin = time.process_time()
        work()
        whole = time.process_time() - begin
    parts = meter.seconds | {"all else": whole - sum(meter.seconds.values())}
    shown = ", ".join(f"{name} {duration(took)} ({took / whole:.0%})" for name, took in parts.items())
    return Row("parts", f"{what}, processor time", duration(whole), floor=shown)


@contextmanager
def _indexing(meter: Meter) -> Iterator[None]:
    """Count the indexers of the memory index; what they are called says what they index."""
    before = MEMORY_INDEX.indexers
    counted = tuple(meter.of(each.__name__.replace("_", " "), each) for each in before)
    force_setattr(MEMORY_INDEX, "indexers", counted)
    try:
        yield
    finally:
        force_setattr(MEMORY_INDEX, "indexers", before)


@contextmanager
def _patched(meter: Meter, parts: Sequence[Part]) -> Iterator[None]:
    before = [(part, getattr(part.owner, part.function)) for part in parts]
    for part, work in before:
        setattr(part.owner, part.function, meter.of(part.name, work))
    try:
        yield
    finally:
        for part, work in before:
            setattr(part.owner, part.function, work)
