"""Sandboxes: the first start of a session, a later one, one from a pool; and kept ones for other subjects."""

from __future__ import annotations

import queue
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, duration, interleave, timed
from benchmarks.sizes import Sizes
from rbank_es.sandbox import deno
from rbank_es.sandbox.interpreter import Sandbox
from rbank_es.sandbox.sandbox_pool import SandboxPool
from rbank_es.sandbox.session import DEFAULT_SETTINGS, Session, start_session

ASK = "1 + 1"
CODE_CACHES = "*_cache_v2*"
"""Folders of Deno's cache with compiled and analysed code."""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row of starts and one of hand-overs, each to the end of a first step."""
    runtime = deno.find()
    if not runtime.is_warm:
        yield Row("sandbox", f"nothing: the cache is not filled; {deno.WARM}")
        return
    fresh = runtime._replace(cache=place / "cache")
    with SandboxPool(1) as pool, kept(1) as same:
        contestants = {
            "first": timed(lambda: _stepped(Session(fresh))),
            "later": timed(lambda: _stepped(start_session(DEFAULT_SETTINGS))),
            "pool": lambda: _handed_over(pool),
            "same": timed(lambda: _asked(same())),
        }
        samples = interleave(contestants, sizes.sandbox_rounds, lambda: _without_code(runtime.cache, fresh.cache))
    took = {name: duration(samples.median(name)) for name in contestants}
    yield Row(
        "sandbox",
        "a session from nothing to the end of a first step, its parts compiled before",
        took["later"],
        peer=f"not compiled before, as after an installation {took['first']}",
        floor=f"a step in a session that runs {took['same']}",
    )
    yield Row(
        "sandbox",
        "a session handed over by a pool to the end of a first step",
        took["pool"],
        floor=f"a step in a session that runs {took['same']}",
    )


def _without_code(cache: Path, into: Path) -> None:
    """Copy a filled cache without its compiled code."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(cache, into, ignore=shutil.ignore_patterns(CODE_CACHES))


def _stepped(session: Session) -> None:
    _asked(Sandbox(take_session=lambda _: session))


def _asked(sandbox: Sandbox) -> None:
    assert sandbox.execute(ASK) == "2"
    sandbox.shutdown()


def _handed_over(pool: SandboxPool) -> float:
    """Return the seconds of a first step in a session that the pool has ready."""
    pool.wait()
    sandbox = pool()
    begin = time.perf_counter()
    assert sandbox.execute(ASK) == "2"
    taken = time.perf_counter() - begin
    sandbox.shutdown()
    pool.wait()  # because starting the replacement must not fall into the next turn
    return taken


# ---------------------------------------------------------------- sandboxes for other subjects


class _Kept(Sandbox):
    """A sandbox that is reused after its shutdown, so that no start is measured."""

    home: queue.SimpleQueue[_Kept]

    def shutdown(self) -> None:
        self.home.put(self)


@contextmanager
def kept(size: int) -> Iterator[Any]:
    """Yield a factory of dspy interpreters that reuses `size` started sandboxes."""
    home: queue.SimpleQueue[_Kept] = queue.SimpleQueue()
    made = [_Kept(tools={}) for _ in range(size)]
    for sandbox in made:
        sandbox.home = home
        sandbox.execute(ASK)
        sandbox.shutdown()

    def interpreter() -> Any:
        sandbox = home.get()
        sandbox.tools.clear()
        return sandbox

    interpreter.execution_instructions = Sandbox.execution_instructions  # type: ignore[attr-defined]
    try:
        yield interpreter
    finally:
        for sandbox in made:
            Sandbox.shutdown(sandbox)
