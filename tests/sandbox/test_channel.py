"""The lines of a channel: whole, in order, however they arrive; pipes stand for the process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rbank_es.sandbox.process import Channel, Pipes


@pytest.fixture
def ends() -> Iterator[tuple[Channel, int]]:
    """A channel, and the descriptor by which its process writes."""
    pairs = [os.pipe() for _ in range(4)]
    (read, write), (error, _), (life, _), (_, taken) = pairs
    yield Channel(Pipes(input=taken, output=read, error=error, life=life), b"fatal"), write
    for descriptor in (each for pair in pairs for each in pair):
        os.close(descriptor)


def test_each_line_is_received_by_itself_also_an_empty_one(ends: tuple[Channel, int]) -> None:
    channel, write = ends
    os.write(write, b"one\n\ntwo\n\n\nthr")
    assert [channel.receive(soon()) for _ in range(5)] == [b"one", b"", b"two", b"", b""]
    assert [*channel.unasked(soon())] == []
    os.write(write, b"ee\nfour\n")
    assert [*channel.unasked(soon())] == [b"three", b"four"]


def test_of_errors_without_end_the_first_4_mib_are_read(tmp_path: Path) -> None:
    """A process that only closed its output may go on writing; a file stands for one that is always faster."""
    place = tmp_path / "errors"
    place.write_text("".join(f"{at:15}\n" for at in range(0, 12 << 20, 16)))
    descriptors = [*os.pipe(), *os.pipe(), os.open(place, os.O_RDONLY)]
    output, life, read, taken, error = descriptors
    channel = Channel(Pipes(input=taken, output=output, error=error, life=read), b"fatal")
    channel.drain()
    assert 3 << 20 < int(channel.stderr.splitlines()[-1]) < 5 << 20
    for descriptor in descriptors:
        os.close(descriptor)


def soon() -> float:
    return time.monotonic() + 10
