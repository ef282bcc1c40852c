"""Attacks on who opens a bank's directory from a stranger: nothing is followed, written or removed outside, or waited
for, and no file there but the log is believed."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.errors import RBankError
from rbank_es.log import Erasing
from rbank_es.log.file.file_log import FileLog
from rbank_es.testing import note
from tests.cli_runner import Result
from tests.cli_runner import run as run_command
from tests.odd_files import KINDS, put

FIRST = "00000000000000000001.jsonl"
SEGMENT_2 = "00000000000000000009.jsonl"
WORDS = "a secret of some length"
# Whoever waits for a writer of a pipe waits for ever; a busy machine takes its time.
PATIENCE_S = 60


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user's, that no bank may touch."""
    place = tmp_path / "home"
    (place / "deep").mkdir(parents=True)
    (place / "file").write_text("mine")
    (place / "deep" / "file").write_text("mine too")
    return place


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A sound bank."""
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as made:
        made.append([note(f'{{"text": "{WORDS}"}}', 1), note("b", 2)])
    return tmp_path / "bank"


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


COMMANDS = {
    "log": ["log", "./bank"],
    "verify": ["verify", "./bank"],
    "search": ["search", "./bank", "secret"],
    "append": ["append", "./bank", "event.jsonl"],
    "erase": ["erase", "./bank", "--text", "words.txt", "--yes"],
    "project": ["project", "./bank"],
}
EVENT = '{"type":"note_logged","note":{"text":"new"}}\n'


def run(*words: str, cwd: Path) -> Result:
    """Run a command, which must end soon, however it ends."""
    began = time.monotonic()
    result = run_command(*words, cwd=cwd, code=None)
    assert time.monotonic() - began < PATIENCE_S
    return result


def every_command(folder: Path) -> dict[str, tuple[int, str]]:
    """Run each command on the bank; none may hang or end in a traceback."""
    (folder / "event.jsonl").write_text(EVENT)
    (folder / "words.txt").write_text(WORDS)
    results = {name: run(*words, cwd=folder) for name, words in COMMANDS.items()}
    for name, result in results.items():
        assert "Traceback" not in result.err and "defect" not in result.err, (name, result.err)
        assert result.code in (0, 1, 2, 3, 4), (name, result)
    return {name: (result.code, result.err) for name, result in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [FIRST, SEGMENT_2, "lock", "FAILED", "ERASING"])
def test_no_command_follows_or_waits_for_what_is_no_file(
    bank: Path, victim: Path, tmp_path: Path, name: str, kind: str
) -> None:
    """In the place of each file of a bank; verify says what it is, and exits 3."""
    put(bank / name, kind, victim)
    before = contents(victim)
    results = every_command(tmp_path)
    assert contents(victim) == before
    assert results["verify"][0] == 3, results
    if name in (FIRST, SEGMENT_2):
        assert all(code in (2, 3) for code, _ in results.values()), results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [FIRST, "lock", "FAILED", "ERASING"])
def test_no_call_follows_or_waits_for_what_is_no_file(bank: Path, victim: Path, name: str, kind: str) -> None:
    """As with the commands, through Python: an error of ours or the right answer."""
    put(bank / name, kind, victim)
    before = contents(victim)
    for use in (
        lambda log: list(log.read()),
        lambda log: log.append([note("c")]),
        lambda log: log.erase(Erasing(words=(WORDS,))),
        lambda log: log.verify(),
    ):
        try:
            with FileLog.open(bank, unsafe_no_sync=True) as log:
                use(log)
        except RBankError as error:
            assert str(bank) in str(error) or name in str(error)
    assert contents(victim) == before


SCRATCH = (
    f"{FIRST}.tmp", "00000000000000000001.tmp", "ERASING.tmp", "FAILED.tmp", "hint.tmp", "lock.tmp",
    f"{SEGMENT_2}.tmp", f".{FIRST}.{'0' * 32}.tmp", f".ERASING.{'0' * 32}.tmp",
)  # fmt: skip


@pytest.mark.parametrize("name", SCRATCH)
def test_a_link_with_the_name_of_a_scratch_file_is_not_written_through(bank: Path, victim: Path, name: str) -> None:
    """Neither when a failed sync is repaired, nor in an erasure, nor when a segment is begun."""
    (bank / name).symlink_to(victim / "file")
    (bank / "FAILED").write_text("a sync failed")
    with FileLog.open(bank, unsafe_no_sync=True) as log:
        assert log.verify().cleared
        log.append([note("c")])
        log.erase(Erasing(words=(WORDS,)))
        assert log.verify().foreign[0].name == name
    assert contents(victim) == {"file": b"mine", "deep/file": b"mine too"} and (bank / name).is_symlink()


@pytest.mark.parametrize("name", ["derived", "cache", "projections.sqlite", ".cache"])
def test_a_folder_of_the_user_behind_a_link_is_neither_cleared_nor_written(bank: Path, victim: Path, name: str) -> None:
    """Erasing, searching and projecting touch nothing but the log and the user's own cache."""
    (bank / name).symlink_to(victim)
    before = contents(victim)
    with Bank.open(bank) as opened:
        opened.search("secret")
        opened.project(rebuild=True)
        opened.log.erase(Erasing(words=(WORDS,)))
        opened.search("secret")
    assert contents(victim) == before and (bank / name).is_symlink()


@pytest.mark.parametrize("name", ["derived/projections.sqlite", "projections.sqlite", "derived/receipts", "hint"])
def test_what_a_bank_brings_along_is_not_believed(bank: Path, name: str) -> None:
    """Read models, receipts and hints in the directory are foreign: not read, and left alone."""
    (bank / name).parent.mkdir(exist_ok=True)
    with Bank.open(bank) as opened:
        opened.project()
        shutil.copy(opened.read_models().path, bank / name)
    brought = (bank / name).read_bytes()
    with Bank.open(bank) as opened:
        assert opened.read_models().path.is_relative_to(Path(os.environ["RBANK_CACHE"]))
        assert opened.log.verify().foreign[0].note == "ignored"
    assert (bank / name).read_bytes() == brought


JUNK = {
    "empty": b"",
    "zeros": b"\0" * 5_000,
    "not UTF-8": b"\xff\xfe" * 100,
    "deep": b"[" * 100_000,
    "other JSON": b'{"records": 7}',
    "no records": b'{"records": []}',
    "a record of another kind": b'{"records": [{"type":"note_logged","note":"x"}]}',
    "cut": b'{"records": [{"type":"content_er',
    "huge": b'{"records": ["' + b"x" * 40_000_000 + b'"]}',
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_a_damaged_marker_of_an_erasure_stops_nobody(bank: Path, junk: bytes) -> None:
    """It is ignored and named; the next erasure replaces it."""
    (bank / "ERASING").write_bytes(junk)
    with FileLog.open(bank, unsafe_no_sync=True) as log:
        assert log.append([note("c")]).last == 5
        (found,) = log.verify().foreign
        assert (found.name, found.harmful) == ("ERASING", True) and "erase again" in found.note
        log.erase(Erasing(words=(WORDS,)))
        assert log.verify().foreign == ()


SHOWN = ("notes.jsonl", "a\nb\x1b[31m")
"""Names that the command is tried on too: one of each outcome."""


@pytest.mark.parametrize(
    ("name", "harmful"),
    [
        ("00000000000000000007.JSONL", True),
        ("0000000000000000001.jsonl", True),
        ("notes.jsonl", True),
        ("٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١.jsonl", True),
        (f"{FIRST}.bak", False),
        ("README.md", False),
        (".hidden", False),
        ("a\nb\x1b[31m", False),
    ],
)
def test_verify_names_what_is_foreign(bank: Path, tmp_path: Path, name: str, harmful: bool) -> None:
    """What could be taken for a part of the log means exit code 3; the rest is named, and ignored."""
    shutil.copy(bank / FIRST, bank / name)
    with FileLog.open(bank) as log:
        (found,) = log.verify().foreign
    assert (found.name, found.harmful) == (name, harmful)
    if name not in SHOWN:
        return
    shown = run("verify", "./bank", cwd=tmp_path)
    assert shown.code == (3 if harmful else 0) and "\x1b" not in shown.out
    told = run("verify", "./bank", "--json", cwd=tmp_path)
    assert told.code == shown.code and told.json["ok"] is not harmful
    assert [(each["name"], each["harmful"]) for each in told.json["foreign"]] == [(name, harmful)]


def test_a_segment_that_has_a_second_name_is_not_written(bank: Path, victim: Path) -> None:
    """A hard link to a file outside: an append would change that file too."""
    (victim / "twin").hardlink_to(bank / FIRST)
    before = (victim / "twin").read_bytes()
    with FileLog.open(bank, unsafe_no_sync=True) as log:
        for _ in range(2):
            with pytest.raises(RBankError, match="another name"):
                log.append([note("c")])
        assert len(list(log.read())) == 4
    assert (victim / "twin").read_bytes() == before
    (victim / "twin").unlink()
    assert FileLog.open(bank, unsafe_no_sync=True).append([note("c")]).last == 5


@pytest.mark.slow
def test_a_sparse_segment_of_a_terabyte_takes_neither_memory_nor_time(bank: Path) -> None:
    """A hole at the end is the remains of an append, however large."""
    with (bank / FIRST).open("r+b") as file:
        file.truncate(1 << 40)
    log = FileLog.open(bank, unsafe_no_sync=True)
    assert log.position() == 4 and len(list(log.read())) == 4


@pytest.mark.parametrize("id", ["../../../../tmp/x", "/etc", "a/b", "", "x" * 3_000, "\u202e", "a\x00b"])
def test_the_id_of_a_bank_leads_nowhere(bank: Path, tmp_path: Path, id: str) -> None:
    """Its maker chooses the id; the cache's folder is named by a digest of it."""
    with FileLog.open(bank) as sound:
        inside = sound.derived_directory.parents[1]
    with FileLog(bank, id) as log:
        assert log.derived_directory.parents[1] == inside


def test_new_banks_and_caches_are_for_their_owner_alone(tmp_path: Path) -> None:
    """0700 and 0600, whatever the umask; the permissions of a bank that is there stay, and new segments have them."""
    before = os.umask(0o000)
    try:
        with Bank.create(tmp_path / "new" / "bank") as bank:
            bank.append([note("a")])
            bank.project()
            places = [tmp_path / "new" / "bank", bank.log.derived_directory]
    finally:
        os.umask(before)
    for place in places:
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    (places[0] / FIRST).chmod(0o640)
    with FileLog.open(places[0]) as log:
        log.erase(Erasing(events=frozenset({3})))
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in places[0].glob("*.jsonl")} == {"0o640"}


def test_a_link_to_the_bank_itself_is_the_users_own(bank: Path, tmp_path: Path) -> None:
    """It is followed, and shares the cache of the place that it leads to."""
    (tmp_path / "short").symlink_to(bank)
    with Bank.open(tmp_path / "short") as linked, Bank.open(bank) as direct:
        linked.append([note("c")])
        assert direct.position == 5 and linked.log.derived_directory == direct.log.derived_directory


def test_a_bank_in_a_place_that_can_only_be_read_has_read_models_as_any(bank: Path, tmp_path: Path) -> None:
    with Bank.open(bank) as opened:
        opened.project()
    bank.chmod(0o500)
    try:
        with Bank.open(bank) as opened:
            assert opened.read_models().checkpoints() and not opened.search("secret").hits
    finally:
        bank.chmod(0o700)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "socket"])
def test_verify_names_what_stands_where_a_segment_could_be(bank: Path, victim: Path, kind: str) -> None:
    """The log before it is sound, so that the cause is named, not the segment that seems to end too early."""
    put(bank / SEGMENT_2, kind, victim)
    done = run_command("verify", str(bank), cwd=bank.parent, code=3)
    assert f"{SEGMENT_2}: it is a" in done.err and FIRST not in done.err


def test_verify_names_an_unknown_segment(bank: Path) -> None:
    """A file of a segment's name that nobody announced: one of the two is wrong, and both are named."""
    (bank / SEGMENT_2).write_text("not a log\n")
    done = run_command("verify", str(bank), cwd=bank.parent, code=3)
    assert FIRST in done.err and f"Or remove {SEGMENT_2}, if that is not of this bank." in done.err


def test_verify_believes_no_remains_that_the_log_does_not_record(bank: Path) -> None:
    """A file of that name may be anybody's."""
    (bank / "torn-1").write_text("put there")
    done = run_command("verify", str(bank), cwd=bank.parent)
    assert "torn-1 keeps 9 bytes of which the log has no record" in done.out
