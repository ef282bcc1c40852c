"""Where the files of a bank in a directory are."""

from pathlib import Path

from rbank_es import Bank
from rbank_es.events import RunStarted
from rbank_es.log.file.file_log import FileLog


def derived(place: Path) -> Path:
    """The folder of what was derived from a bank, in the cache of the tests."""
    with FileLog.open(place) as log:
        return log.derived_directory


def active(place: Path) -> Path:
    """The newest segment of a bank."""
    return max(place.glob("*.jsonl"))


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def filled(place: Path, runs: int = 40) -> Path:
    """Make a bank with a group of runs, and return its place."""
    with Bank.create(place) as bank:
        bank.append([RunStarted(run=f"r{n}", task="t" * 500) for n in range(runs)])
    return place


def damage(place: Path) -> Path:
    """Change a byte of a bank that `filled` made, which the log acknowledged, and return the bank's place."""
    [segment] = place.glob("*.jsonl")
    data = segment.read_bytes()
    segment.write_bytes(data[:4000] + b"#" + data[4001:])
    return place
