"""Laws of the log, over histories that make sense and histories that don't."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.errors import LogCorruption, RBankError
from rbank_es.events import Erased, Event, LmCalled, NoteLogged, ToolCalled, type_of
from rbank_es.events.codec import TYPES, decode_event
from rbank_es.events.items import Item
from rbank_es.log import Erasing, Head
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import event_id, extraction, forms_of, note
from tests.effort import examples
from tests.faults.disk import Quick
from tests.places import derived
from tests.strategies import histories

law = settings(max_examples=examples(50), deadline=None)
QUICK = Quick()
MOMENT = 1_800_000_000_000_000


def identified(groups: Sequence[Sequence[Event]]) -> list[list[Event]]:
    """The same groups, each event with an id of its own."""
    numbers = iter(range(1, 10**6))
    return [[replace(event, id=event_id(next(numbers))) for event in group] for group in groups]


groups_of_events = st.lists(histories(min_size=1, max_size=4).filter(bool), min_size=1, max_size=8).map(identified)
sizes = st.sampled_from((900, 3_000, 10**6))
blocks = st.sampled_from((200, 1_000, 2**20))


@contextmanager
def room(segment_bytes: int = 10**6, block_bytes: int = 2**20, inline_bytes: int = 120) -> Iterator[Path]:
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(limits, "SEGMENT_BYTES", segment_bytes),
        patch.object(limits, "READ_BLOCK_BYTES", block_bytes),
        patch.object(limits, "INLINE_TEXT_BYTES", inline_bytes),
    ):
        yield Path(folder) / "bank"


def create(place: Path, groups: Sequence[Sequence[Event]] = ()) -> FileLog:
    log = FileLog.create(place, calls=QUICK)
    for group in groups:
        log.append(group)
    return log


def reopened(place: Path) -> FileLog:
    shutil.rmtree(derived(place), ignore_errors=True)
    return FileLog.open(place, calls=QUICK)


def content(event: Event) -> Event:
    """The event without what the writer adds."""
    return replace(event, seq=0, at="", more=0, dur=0, crc="", **({"salt": ""} if hasattr(event, "salt") else {}))


@law
@given(groups_of_events, sizes)
def test_what_is_read_is_what_was_appended(groups: list[list[Event]], segment_bytes: int) -> None:
    """Every event reads as it was given, in order, with gap-free positions, also after reopening."""
    with room(segment_bytes) as place:
        log = create(place, groups)
        for handle in (log, reopened(place)):
            events = list(handle.read(resolve=TYPES))
            assert list(map(content, events)) == [event for group in groups for event in group]
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert log.verify().events == len(events)


@law
@given(groups_of_events, st.lists(st.integers(0, 50), max_size=8), sizes)
def test_append_twice_is_append_once(groups: list[list[Event]], again: list[int], segment_bytes: int) -> None:
    """However often and late groups are appended again, the log is what it was, and retries get the first answer."""
    with room(segment_bytes) as place:
        log, answers = create(place), list[tuple[int, int]]()
        for number, group in enumerate(groups):
            first = log.append(group)
            answers.append((first.first, first.last))
            before = list(log.lines())
            for choice in [*again, number]:
                if choice <= number:
                    retry = (log if choice % 2 else reopened(place)).append(groups[choice])
                    assert retry.duplicate and (retry.first, retry.last) == answers[choice]
            assert list(log.lines()) == before


@law
@given(groups_of_events, sizes, blocks, st.integers(0, 60), st.integers(0, 60), st.sets(st.sampled_from(sorted(TYPES))))
def test_windows_are_slices(
    groups: list[list[Event]], segment_bytes: int, block_bytes: int, after: int, upto: int, types: set[str]
) -> None:
    """Every window and choice of types, over any cut into segments and blocks, is that slice of the whole."""
    with room(segment_bytes, block_bytes) as place:
        log = create(place, groups)
        everything = list(log.read())
        for handle in (log, reopened(place)):
            wanted = [event for event in everything[after:upto] if type_of(event) in types]
            assert list(handle.read(after=after, upto=upto, types=types)) == wanted
            assert [decode_event(line) for line in handle.lines(after=after, upto=upto)] == everything[after:upto]
            assert list(handle.read(after=after)) == everything[after:]


@law
@given(groups_of_events, st.integers(0, 10**6), st.binary(max_size=40), sizes)
def test_any_cut_of_the_tail_leaves_whole_groups(
    groups: list[list[Event]], cut: int, garbage: bytes, segment_bytes: int
) -> None:
    """Wherever the last segment ends, and whatever follows there, exactly the whole groups before it are read."""
    with room(segment_bytes) as place:
        log = create(place)
        bounds = [0]
        for group in groups:
            bounds.append(log.append(group).last)
        path = max(place.glob("*.jsonl"))
        data = path.read_bytes()
        header = data.index(b"\n") + 1
        end = header + cut % (len(data) - header + 1)
        events = list(log.read())
        path.write_bytes(data[:end] + garbage)
        again = reopened(place)
        read = list(again.read())
        assert read == events[: len(read)] and len(read) in bounds
        following = min((bound for bound in bounds if bound > len(read)), default=None)
        assert following is None or b'"seq":%d,' % following not in data[:end] or not data[:end].endswith(b"\n")
        assert again.append([note("next")]).last == len(read) + 1
        assert list(again.read())[:-1] == read and again.verify().torn is None


def flips(data: bytes, chance: random.Random) -> Iterator[tuple[int, int]]:
    """Every bit of every newline, and many others."""
    for offset, byte in enumerate(data):
        if byte == 10:
            yield from ((offset, bit) for bit in range(8))
    for _ in range(examples(250)):
        yield chance.randrange(len(data)), chance.randrange(8)


@pytest.mark.slow
@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(groups_of_events.filter(lambda groups: len(groups) > 2), st.integers(0, 10**6))
def test_any_flipped_bit_in_a_closed_segment_is_detected(groups: list[list[Event]], seed: int) -> None:
    """`verify` always raises; reading raises, after nothing but the truth, or its answer is what it was before."""
    with room(10**6, inline_bytes=60) as place:
        log = create(place, groups)
        with patch.object(limits, "SEGMENT_BYTES", 10):
            log.append([note("next")])
        path = min(place.glob("*.jsonl"))
        data = path.read_bytes()
        types = sorted({type_of(event) for event in log.read()})
        ways = [{}, {"resolve": TYPES}, *({"types": {name}} for name in types), {"after": log.position() // 2}]
        truths = [list(log.read(**way)) for way in ways]  # type: ignore[arg-type]
        for offset, bit in flips(data, random.Random(seed)):
            damaged = bytearray(data)
            damaged[offset] ^= 1 << bit
            path.write_bytes(damaged)
            reader = FileLog.open(place) if offset > data.index(b"\n") else None
            if reader is not None:
                for way, truth in zip(ways, truths, strict=True):
                    check_honest(reader, way, truth)
            with pytest.raises(LogCorruption):
                FileLog.open(place).verify()


def check_honest(reader: FileLog, way: dict[str, object], truth: list[Event]) -> None:
    seen: list[Event] = []
    try:
        for event in reader.read(**way):  # type: ignore[arg-type]
            seen.append(event)
    except RBankError as error:
        assert isinstance(error, LogCorruption)
        assert seen == truth[: len(seen)]
    else:
        assert seen == truth


@law
@given(groups_of_events, groups_of_events, groups_of_events, sizes)
def test_head_is_independent_of_what_comes_after(
    before: list[list[Event]], one: list[list[Event]], other: list[list[Event]], segment_bytes: int
) -> None:
    """Two logs that begin with the same have the same heads up to there, and different ones behind."""
    heads = []
    for after in (one, other):
        with room(segment_bytes) as place:
            entropy = random.Random(1).randbytes
            log = FileLog.create(place, calls=QUICK, clock=lambda: MOMENT, entropy=entropy)
            for group in before:
                log.append(group)
            common = log.position()
            for group in after:
                log.append([replace(event, id="") for event in group])
            heads.append([log.head(seq) for seq in range(log.position() + 1)])
            assert reopened(place).verify(heads[-1]).noted == tuple(heads[-1])
    assert heads[0][: common + 1] == heads[1][: common + 1]
    if one[0] != other[0]:
        assert heads[0][-1].digest != heads[1][-1].digest


LETTERS = 'ghijklmnopqrstuvwxyzGHIJK "\\\n\t/éßΣ🦉\x00\u2028'
secrets = st.text(LETTERS, min_size=limits.NEEDLE_CHARS, max_size=60).filter(lambda text: len(text.strip()) > 6)
wraps = st.lists(
    st.sampled_from(("plain", "inside", "json", "ascii", "twice", "long", "item", "result", "request", "none")),
    min_size=1,
    max_size=8,
)


def telling(secret: str, how: str, number: int) -> Event:
    """An event that holds the secret in one way or other."""
    wrapped = {
        "plain": secret,
        "inside": f"before {secret} after",
        "json": json.dumps({"k": [secret]}, ensure_ascii=False),
        "ascii": json.dumps({"k": [secret]}),
        "twice": json.dumps({"k": json.dumps([secret])}),
        "long": f"{'w' * 100}{secret}{'w' * 100}",
        "none": f"harmless {number}",
    }
    if how == "item":
        return extraction(Item.make("w w w w w w w", "W" * 30, id="one"), Item.make("titled", secret, id="two"))
    if how == "result":
        return ToolCalled(run="r", tool="t", arguments=json.dumps({"query": secret}), result=secret * 3)
    if how == "request":
        return LmCalled(role="agent", model="m", request=json.dumps([{"content": secret}]), response=json.dumps(secret))
    return NoteLogged(note=wrapped[how])


@law
@given(secrets, wraps, sizes, st.booleans())
@example('a\\n"b"\\\\c/d', ["twice", "json", "ascii"], 900, True)
def test_erasing_leaves_no_byte(secret: str, ways: list[str], segment_bytes: int, crowded: bool) -> None:
    """No file holds the text in any form, everything else is as it was, and heads noted before verify."""
    with room(segment_bytes) as place:
        log = create(place)
        for number, how in enumerate(ways):
            log.append([note("beside it")] * crowded + [telling(secret, how, number)])
        before, noted = list(log.read(resolve=TYPES)), [log.head(seq) for seq in range(log.position() + 1)]
        erasure = log.erase(Erasing(words=(secret,)))
        telltale = [how for how in ways if how != "none"]
        assert len({place.seq for place in erasure.places}) == len(telltale)
        stored = b"\n".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
        assert not [form for form in forms_of(secret) if form in stored]
        check_rest(log, before, noted)
        if telltale:
            assert reopened(place).erase(Erasing(words=(secret,))).places == ()


def check_rest(log: FileLog, before: list[Event], noted: list[Head]) -> None:
    """What is not erased is as it was."""
    for handle in (log, reopened(log.directory)):
        assert handle.verify(noted).events == handle.position()
        assert [handle.head(head.seq) for head in noted] == noted
        for event, was in zip(handle.read(resolve=TYPES, upto=len(before)), before, strict=True):
            for name in set(event.__struct_fields__) - {"salt", "crc"}:
                now, then = getattr(event, name), getattr(was, name)
                pairs = zip(now, then, strict=True) if name == "candidates" else ((now, then),)
                assert all(isinstance(left, Erased) or left == right for left, right in pairs)


@law
@given(groups_of_events, st.lists(st.integers(1, 60), min_size=1, max_size=4), sizes)
def test_erasing_events_in_any_order(groups: list[list[Event]], victims: list[int], segment_bytes: int) -> None:
    """Erasing event after event, each once more: heads hold, positions stay, what was erased stays erased."""
    with room(segment_bytes) as place:
        log = create(place, groups)
        length = log.position()
        noted = [log.head(seq) for seq in range(length + 1)]
        victims = [victim for victim in victims if victim <= length]
        assume(victims)
        for victim in victims:
            log.erase(Erasing(events=frozenset({victim})))
            again = log.erase(Erasing(events=frozenset({victim})))
            assert again.places == () and again.appended is None
            noted.append(log.head())
        for handle in (log, reopened(place)):
            assert handle.verify(noted).events == handle.position()
            assert [event.seq for event in handle.read(resolve=TYPES)] == list(range(1, handle.position() + 1))
