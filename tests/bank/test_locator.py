"""BANK@POINT: what each form means, and the errors of those that mean nothing, or two things."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank.locator import locate, resolve_point, split_point
from rbank_es.errors import BadBankName, BadPoint
from rbank_es.events import RunFinished, RunStarted
from rbank_es.log.file.bank_directory import directory_of
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import event_id, note
from tests.effort import examples
from tests.faults.disk import Quick

SECOND = 1_000_000
BEGAN = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> FileLog:
    """Ten events, ten seconds apart, the third and fourth of one group; runs begin at 2, 5, 7."""
    moments = iter(BEGAN + offset * SECOND for offset in (0, 10, 20, 40, 50, 60, 70, 80, 90))
    now = [BEGAN]
    made = FileLog.create(tmp_path_factory.mktemp("points") / "bank", clock=lambda: now[0])
    events = [
        note("1", 1),
        RunStarted(run="run-a", id=event_id(2)),
        note("3", 3),
        note("4", 4),
        RunStarted(run="6", id=event_id(5)),
        RunFinished(run="run-a", outcome="failed", id=event_id(6)),
        RunStarted(run="HEAD~1", id=event_id(7)),
        RunStarted(run="run-a", id=event_id(8)),
        RunStarted(run=event_id(3), id=event_id(9)),
        RunStarted(run="2026-01-01", id=event_id(10)),
    ]
    for group in (*([event] for event in events[:2]), events[2:4], *([event] for event in events[4:])):
        now[0] = next(moments)
        made.append(group)
    return made


@pytest.mark.parametrize(
    ("point", "said"),
    [
        (11, "no position 11; the log goes from 0 to 10"),
        (-1, "no position -1"),
        ("11", "no position 11"),
        ("9" * 18, "no position"),
        ("9" * 30, "no position, event or run"),
        ("HEAD~11", "no position -1"),
        ("HEAD~", "no position, event or run of that name"),
        ("HEAD~x", "no position, event or run of that name"),
        ("head", "no position, event or run of that name"),
        ("", "no position, event or run of that name"),
        ("run-z", "no position, event or run of that name"),
        ("run:run-z", "no such run"),
        ("seq:x", "no such position"),
        ("seq:11", "no such position"),
        ("seq:-1", "no such position"),
        (f"event:{event_id(77)}", "no such event"),
        ("event:7", "no such event"),
        (event_id(77), "no position, event or run of that name"),
        ("event:", "no position, event or run of that name"),
        ("6", "it could be a position or a run; write seq:, event: or run: in front"),
        (event_id(3), "it could be an event or a run"),
        ("9" * 18, "there is no position 999,999"),
        ("9" * 19, "no position, event or run of that name"),
        ("2026-01-01", "it could be a time or a run"),
        ("2026-02-31", "not a valid time"),
        ("2026-01-01T25:00", "not a valid time"),
        ("2026-01-01Tnoon", "not a valid time"),
        ("0001-01-01T00:00:00+23:00", "not a valid time"),
        ("9999-12-31T23:59:59-23:00", "not a valid time"),
        ("٣", "no position, event or run of that name"),
    ],
)
def test_no_such_point(log: FileLog, point: str | int, said: str) -> None:
    """What doesn't exist, or could be two things, is refused with the reason and the forms that there are."""
    with pytest.raises(BadPoint) as caught:
        resolve_point(log, point)
    assert said in caught.value.reason and caught.value.point == str(point)
    assert "A point is a position, a time such as 2026-01-31T12:00, HEAD~n, an event id, or a run id." in str(
        caught.value
    )


def test_runs_that_are_called_like_other_points(tmp_path: Path) -> None:
    """`HEAD` counts from the head and a prefix is a prefix, whatever runs are called; else it is refused."""
    log = FileLog.create(tmp_path / "bank")
    names = ("HEAD", "HEAD~2", "run:HEAD", "seq:1", "5", "12", "2026-01-31T12:00", "HEAD~x")
    log.append([RunStarted(run=name) for name in names])
    assert [resolve_point(log, point) for point in ("HEAD", "HEAD~2", "HEAD~8", "seq:1")] == [8, 6, 0, 1]
    assert [resolve_point(log, f"run:{name}") for name in names] == list(range(8))
    assert (resolve_point(log, "12"), resolve_point(log, "HEAD~x")) == (5, 7)  # there is no position 12
    for point, two in (("5", "a position or a run"), ("2026-01-31T12:00", "a time or a run")):
        with pytest.raises(BadPoint, match=f"it could be {two}"):
            resolve_point(log, point)
    log.append([note("x")] * 4)
    with pytest.raises(BadPoint, match="it could be a position or a run"):
        resolve_point(log, "12")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(-5, 30), min_size=1, max_size=20), st.integers(-40, 400))
def test_time_is_the_last_event_recorded_by_then(steps: list[int], asked: int) -> None:
    """For any clock, also one that goes backwards, a time means the last event recorded at or before it."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SEGMENT_BYTES", 900)
        now = [BEGAN]
        log = FileLog.create(Path(folder) / "bank", clock=lambda: now[0], calls=Quick())
        for step in steps:
            now[0] += step * SECOND
            log.append([note("x")])
        minutes, seconds = divmod(asked, 60)
        hours, minutes = divmod(minutes, 60)
        day = "2026-01-01" if hours >= 0 else "2025-12-31"
        text = f"{day}T{hours % 24:02d}:{minutes:02d}:{seconds:02d}.000000Z"
        expected = sum(event.at <= text for event in log.read())
        assert resolve_point(log, text) == expected


class TestPlaces:
    """Where a bank is, and at what point."""

    @pytest.mark.parametrize(
        ("text", "bank", "point"),
        [
            ("bank", "bank", None),
            ("bank@7", "bank", "7"),
            ("./a@b/bank", "./a@b/bank", None),
            ("./a@b/bank@HEAD~1", "./a@b/bank", "HEAD~1"),
            ("a@b@c", "a@b", "c"),
            ("bank@2026-01-01T00:00:00+01:00", "bank", "2026-01-01T00:00:00+01:00"),
            ("/bank/@7", "/bank/", "7"),
        ],
    )
    def test_split(self, text: str, bank: str, point: str | None) -> None:
        """At the last `@` behind the last `/`."""
        assert split_point(text) == (bank, point)

    @pytest.mark.parametrize("text", ["bank@", "@7", "@"])
    def test_half_a_point(self, text: str) -> None:
        """Neither side may be empty."""
        with pytest.raises(BadBankName):
            split_point(text)

    def test_directories(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A bare name is kept at home; a path is a path; a file URL is the path in it."""
        monkeypatch.delenv("RBANK_HOME", raising=False)
        assert locate("my-bank_1.x")[1:] == ("./logs/my-bank_1.x", "my-bank_1.x")
        monkeypatch.setenv("RBANK_HOME", "/srv/banks")
        assert locate("b")[1:] == ("/srv/banks/b", "b")
        assert locate("x" * 100).name == "x" * 100
        assert locate("./b").name == locate("../b").name == "b"
        assert locate("/a/b c").name == locate("file:///a/b%20c").name == "b c"
        assert directory_of("file:///a/b%20c") == Path("/a/b c") and directory_of("../b") == Path("../b")
        assert directory_of("file:/a") == directory_of("file://localhost/a") == Path("/a")
        assert locate(Path("any thing"))[1:] == ("./any thing", "any thing")
        assert locate("memory:notes").name == "notes" and locate("memory:").name == "memory"

    @pytest.mark.parametrize(
        "name",
        [
            "",
            ".",
            "..",
            ".b",
            "b.",
            "-b",
            "a b",
            "ü",
            "b\0",
            "x" * 101,
            "~",
            "file:",
            "file://host/a",
            "pg://x",
            "C:b",
            "memory:a/b",
            "memory:-",
        ],
    )
    def test_bad_names(self, name: str) -> None:
        """What can't be a bank's name is refused with what can."""
        with pytest.raises(BadBankName, match="can't name a bank"):
            locate(name)
