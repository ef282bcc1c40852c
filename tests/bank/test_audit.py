"""What a review of the whole found: each of these went wrong once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.bank.bank_difference import difference
from rbank_es.errors import BadImport, BankExists, ErasureUnfinished
from rbank_es.events import (
    Decision,
    MemoriesConsolidated,
    MemoriesExtracted,
    NoteLogged,
    RunStarted,
    ToolCalled,
    type_of,
)
from rbank_es.exchange import import_paths
from rbank_es.log.disk import System
from tests.processes import PROCESSES

ROOT = Path(__file__).parents[2]
SECRET = 'a "secret"\nof two lines'


def rbank(*arguments: str | bytes | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "RBANK_HOME": str(cwd)}
    command = [sys.executable, "-m", "rbank_es", *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


def make_or_open(place: Path) -> None:
    """Make a bank, or open it where somebody else was quicker; then append."""
    try:
        bank = Bank.create(place)
    except BankExists:
        bank = Bank.open(place)
    bank.append(NoteLogged())
    bank.close()


@pytest.mark.slow
def test_a_bank_is_never_seen_without_its_birth(tmp_path: Path):
    """However many make it at once, every bank begins with `bank_created` and `policy_set`."""
    for number in range(5):
        place = tmp_path / str(number)
        makers = [PROCESSES.Process(target=make_or_open, args=(place,)) for _ in range(4)]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join(30)
        with Bank.open(place) as bank:
            assert [type_of(event) for event in bank.events()][:2] == ["bank_created", "policy_set"]
            assert bank.position == 6


class FullLater(System):
    """A disk that is full when a segment is to be rewritten."""

    full = True

    def replace(self, source: Path, target: Path) -> None:
        """Refuse to put a rewritten segment in its place."""
        if self.full and target.suffix == ".jsonl" and target.exists():
            raise OSError(28, "No space left on device")
        super().replace(source, target)


def test_an_erasure_that_runs_out_of_space_says_that_it_has_begun(tmp_path: Path):
    """It doesn't say that the log is as it was; and once there is room, the next append completes it."""
    calls = FullLater()
    with Bank.create(tmp_path / "bank", calls=calls) as bank:
        bank.append(NoteLogged(note=json.dumps({"text": "a secret of some length"})))
        with pytest.raises(ErasureUnfinished, match="has begun and can't be completed: No space left"):
            bank.erase(event=3)
        with pytest.raises(ErasureUnfinished):
            bank.append(NoteLogged())
        assert bank.check().erasing
        calls.full = False
        bank.append(NoteLogged())
        assert bank.check().texts_erased == 1


@pytest.mark.parametrize("depth", range(4))
def test_a_text_is_erased_however_deep_in_json_it_stands(tmp_path: Path, depth: int):
    """A text with quotes and newlines, inside JSON inside strings of JSON."""
    inside = SECRET
    for _ in range(depth):
        inside = json.dumps({"q": inside})
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(ToolCalled(run="r", tool="t", arguments=json.dumps({"text": inside})))
        assert len(bank.erase(text=SECRET).erasure.places) == 1


def test_an_erasure_names_items_by_their_own_words_alone(tmp_path: Path):
    """Another candidate of the same extraction has the item's id: that its words go is no change of the item."""
    one = Item.make("Count the classes first", "Ask for them before you join.", id="item-a")
    other = Item.make("A secret of some length", "Never told to anyone.", id="item-a")
    with Bank.create(tmp_path / "bank") as bank:
        heads, texts = (one.head, other.head), (one.text, other.text)
        extraction = bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=texts))
        decisions = (
            Decision(candidate=0, action="add", item="item-a"),
            Decision(candidate=1, action="discard", item="item-a", reason="known"),
        )
        bank.append(MemoriesConsolidated(extraction=extraction.events[0].id, policy="append-1", decisions=decisions))
        before = bank.state()
        would, did = bank.erase(text=other.title, dry_run=True), bank.erase(text=other.title)
        assert did.erasure.places and would.items == did.items == difference("bank", before, bank.state()).items == ()
        would, did = bank.erase(text=one.title, dry_run=True), bank.erase(text=one.title)
        assert [each.id for each in would.items] == ["item-a"] and did.items == would.items


def test_a_run_that_is_called_like_a_time_can_be_named(tmp_path: Path):
    """`2026-99-99` is no time, but may be a run."""
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(RunStarted(run="2026-99-99"))
        assert bank.resolve("2026-99-99") == 2


def test_an_export_in_another_order_is_refused(tmp_path: Path):
    """Events whose positions don't grow would be imported as nonsense."""
    with Bank.create(tmp_path / "bank") as bank:
        lines = [line + b"\n" for line in bank.log.lines()]
        (tmp_path / "turned.jsonl").write_bytes(b"".join(reversed(lines)))
        with pytest.raises(BadImport, match="not in the order of the log"):
            import_paths(bank, [tmp_path / "turned.jsonl"])


def test_an_argument_that_is_no_text_is_refused(tmp_path: Path):
    """Bytes that aren't UTF-8 are bad input, not a defect."""
    done = rbank("show", "bank", b"\xff", cwd=tmp_path)
    assert done.returncode == 2 and "not UTF-8" in done.stderr
