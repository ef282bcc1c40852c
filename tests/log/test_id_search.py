"""The search for an id while another thread erases: an event that is in the log is found at every instant."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rbank_es import limits
from rbank_es.log import Erasing
from rbank_es.log.file import index
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import event_id, note

BLOCKED_S = 0.05
"""Time that an act gets beside a search that stands still. One that waits for a lock of the search goes on behind it."""


def paused_at(line: int, search: Callable[[], Any], act: Callable[[], object]) -> tuple[Any, bool]:
    """Run a search, and at one of its lines an act in another thread; return what was found, and if the line is one."""
    seen, acts = [0], list[threading.Thread]()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != index.__file__:
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == line:
                acts.append(threading.Thread(target=act))
                acts[0].start()
                acts[0].join(BLOCKED_S)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = search()
    finally:
        sys.settrace(before)
    for thread in acts:
        thread.join()
    return found, bool(acts)


@pytest.mark.parametrize("segment_bytes", [limits.SEGMENT_BYTES, 900], ids=["in the last segment", "in a closed one"])
def test_an_id_is_found_while_another_thread_erases(
    segment_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever line of the search the other thread begins."""
    monkeypatch.setattr(limits, "SEGMENT_BYTES", segment_bytes)
    paused, line = True, 0
    while paused:
        line += 1
        with FileLog.create(tmp_path / f"bank-{line}") as log:
            log.append([note(str(number), number) for number in range(1, 5)])
            # So many that a dictionary is made, to which the search adds what was appended since.
            known = [log.seq_of_id(event_id(1)) for _ in range(50)]
            log.append([note("5", 5)])
            found, paused = paused_at(
                line,
                lambda log=log: log.seq_of_id(event_id(2)),
                lambda log=log: log.erase(Erasing(events=frozenset({3})), reason="test"),
            )
        assert (known[-1], found) == (1, 2)
    assert line > 10
