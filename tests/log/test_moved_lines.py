"""Lines of a file that stand in another order than they were written: no line is moved unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.errors import CheckFailed, LogCorruption
from rbank_es.events import LmCalled, NoteLogged
from rbank_es.events.event_envelope import Event
from rbank_es.log import Erasing
from rbank_es.log.file.file_log import FileLog
from rbank_es.log.lines import ANY_TEXT
from tests.effort import examples

lawful = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = [str(number) * 3_000 for number in range(6)]
"""Texts that are long enough to be stored apart, few enough to be named again."""


def call(prompt: str, answer: str) -> Event:
    return LmCalled(role="agent", model="m", request=prompt, response=answer)


calls = st.builds(call, st.sampled_from([*TEXTS, "short"]), st.sampled_from([*TEXTS, "short"]))
groups = st.lists(
    st.lists(st.one_of(calls, st.just(NoteLogged(note='"n"'))), min_size=1, max_size=4), min_size=1, max_size=5
)


@lawful
@given(groups)
def test_no_line_is_exchanged_with_its_neighbour_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, given_groups: list[list[Event]]
) -> None:
    log = FileLog.create(tmp_path_factory.mktemp("logs") / "bank")
    for group in given_groups:
        log.append(group)
    noted = [log.head(position) for position in range(log.position() + 1)]
    log.verify(noted)
    [path] = Path(log.place).glob("*.jsonl")
    log.close()
    whole = path.read_bytes()
    lines = whole.splitlines()
    for number in range(1, len(lines) - 1):
        moved = [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]
        path.write_bytes(b"\n".join(moved) + b"\n")
        again = FileLog.open(path.parent)
        # Where the texts of a group are the same set, the chain is unchanged, and the order alone tells.
        with pytest.raises((LogCorruption, CheckFailed)):
            again.verify(noted)
        again.close()
    path.write_bytes(whole)
    FileLog.open(path.parent).verify(noted)


@lawful
@given(groups, st.data())
def test_what_erasures_and_copies_leave_is_sound(
    tmp_path_factory: pytest.TempPathFactory, given_groups: list[list[Event]], data: st.DataObject
) -> None:
    """A copy up to a position has the texts up to there, and none of an event that was cut off."""
    folder = tmp_path_factory.mktemp("logs")
    log = FileLog.create(folder / "bank")
    for group in given_groups:
        log.append(group)
    upto = data.draw(st.integers(0, log.position()))
    with log.copy(upto, str(folder / "copy")) as copied:
        assert copied.verify([log.head(upto)]).events == upto
        named = {
            text
            for event in log.read(upto=upto, resolve=("lm_called",))
            if isinstance(event, LmCalled)
            for text in (event.request, event.response)
        }
        stored = [line for path in Path(copied.place).glob("*.jsonl") for line in path.read_bytes().splitlines()]
        texts = [line for line in stored if line.startswith(ANY_TEXT)]
        assert len(texts) == len({text for text in named if isinstance(text, str) and len(text) > 2_048})
    noted = [log.head(position) for position in range(log.position() + 1)]
    for event in data.draw(st.lists(st.integers(1, log.position()), max_size=2)):
        log.erase(Erasing(events=frozenset({event})), rebuild=lambda: None)
    assert log.verify(noted).noted == tuple(noted)
    log.close()
