"""Put the worked example into docs/format.md: real bytes and digests, written by the log itself.

    python docs/make_example.py

Clock and random bytes are fixed, so the example is reproducible; a test compares it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256, shake_256
from pathlib import Path
from unittest.mock import patch

from rbank_es import limits
from rbank_es.events import ContextBuilt, ItemsLinked, LayerUse, NoteLogged, RunStarted
from rbank_es.log import Erasing, lines
from rbank_es.log.file.file_log import FileLog

DOCUMENT = Path(__file__).resolve().parent / "format.md"
BEGIN = "<!-- example: made by docs/make_example.py -->\n"
END = "<!-- end of example -->\n"
INLINE_BYTES = 100
"""The bytes from which a text is stored apart in this example."""
SECONDS = 1_000_000


class Fixed:
    """A clock that is set by hand, and reproducible random bytes."""

    def __init__(self) -> None:
        self.now_us = 1_769_860_800 * SECONDS  # 2026-01-31T12:00:00Z
        self._draws = 0

    def clock(self) -> int:
        """Return UTC microseconds since 1970."""
        return self.now_us

    def entropy(self, size: int) -> bytes:
        """Return that many bytes, different in each call."""
        self._draws += 1
        return shake_256(b"example %d" % self._draws).digest(size)


@contextmanager
def _log() -> Iterator[tuple[FileLog, Fixed]]:
    fixed = Fixed()
    with (
        tempfile.TemporaryDirectory() as place,
        patch.object(limits, "INLINE_TEXT_BYTES", INLINE_BYTES),
        FileLog.create(Path(place) / "bank", clock=fixed.clock, entropy=fixed.entropy) as log,
    ):
        yield log, fixed


def section() -> str:
    """Return the example as Markdown."""
    with _log() as (log, fixed):
        layers = (LayerUse(layer="base", chars=12), LayerUse(layer="L0", chars=14))
        log.append(
            [
                RunStarted(run="run-1", task='Where is "Möwe"?\nSay it.'),
                ContextBuilt(run="run-1", chars=26, layers=layers, texts=("You are kind", "Three \\ berths")),
            ]
        )
        fixed.now_us += SECONDS
        log.append([NoteLogged(by="somebody", note="The boats lie in the inner basin. " * 4)])
        fixed.now_us += SECONDS
        log.append([ItemsLinked(source="a1", target="b2", how="contradicts")])
        before, heads = _files(log), [log.head(seq) for seq in range(5)]
        fixed.now_us += SECONDS
        log.erase(Erasing(paths=((2, "texts.0"), (3, "note"))), reason="to show it")
        after = _files(log)
        assert [log.head(seq) for seq in range(5)] == heads
        return "\n".join([*_before(log, before), *_chain(before), *_after(before, after), ""])


def _files(log: FileLog) -> dict[str, list[bytes]]:
    return {path.name: path.read_bytes().splitlines() for path in sorted(log.directory.glob("*.jsonl"))}


def _block(rows: list[str], language: str = "") -> list[str]:
    return [f"```{language}", *rows, "```", ""]


def _before(log: FileLog, files: dict[str, list[bytes]]) -> Iterator[str]:
    ((name, stored),) = files.items()
    seed = f"{lines.seed_of(log.bank_id):08x}"
    line = stored[1].decode()
    yield f"The file `{name}`: the line that opens it, a group of two events, a long text with the event that names it"
    yield f"(for this example everything over {INLINE_BYTES} bytes is long), and an event without texts. Each is one"
    yield "line, ended by one newline:"
    yield ""
    yield from _block([row.decode() for row in stored], "jsonl")
    yield f"**CRC.** The bank's id is `{log.bank_id}`; its CRC-32 is `{seed}`. Continued over the"
    yield f'{len(stored[1]) - lines.CRC_TAIL} bytes of the second line before `,"crc":`, it is `{line[-10:-2]}`.'
    yield ""


def _chain(files: dict[str, list[bytes]]) -> Iterator[str]:
    (stored,) = files.values()
    digest = lines.GENESIS
    for line in stored:
        if line.startswith((lines.ANY_TEXT, lines.SEGMENT)):
            continue
        yield f"**Position {lines.seq_of(line)}.**"
        yield ""
        digest = lines.chain(digest, line)
        yield from _block([*_steps(line), f"D{lines.seq_of(line)}  {digest.hex()}"])
    text = next(line for line in stored if line.startswith(lines.TEXT)).decode()
    salt, raw = text.split('"salt":"')[1][:24], text.split('"text":')[1][: -lines.CRC_TAIL]
    yield f"The key of the long text is SHA-256 of `{salt}` followed by the {len(raw.encode())} bytes of its raw JSON,"
    yield f"quotes included: `{sha256((salt + raw).encode()).hexdigest()}`."
    yield ""


def _steps(line: bytes) -> Iterator[str]:
    """Yield the parts of which the digest of a line is made."""
    facts, salt, units = lines.split(line)
    yield f"D{lines.seq_of(line) - 1} as 32 bytes, then these {len(facts)} bytes:"
    yield f"    {facts.decode()}"
    for unit in units:
        s = sha256(f"{salt}\0{unit.path}".encode()).hexdigest()
        yield f"then a newline and: {unit.path} {lines.commitment(salt, unit)}"
        yield f"    raw  {unit.raw.decode()}"
        yield f"    s    {s}"


def _after(before: dict[str, list[bytes]], after: dict[str, list[bytes]]) -> Iterator[str]:
    first, *others = after.items()
    (old,) = before.values()
    changed = [line.decode() for line in first[1] if line not in old]
    yield "**After erasing** `texts.0` of position 2 and `note` of position 3: in the first file three lines changed,"
    yield "and two are new. `D1` to `D4` are what they were."
    yield ""
    yield from _block(changed, "jsonl")
    yield "The unit `texts.1` survives, and its `s`, in hex, stands in place of the salt. The next file,"
    yield f"`{others[0][0]}`, holds only the line that opens it:"
    yield ""
    yield from _block([line.decode() for line in others[0][1]], "jsonl")


def replaced(document: str) -> str:
    """Return the document with the current example."""
    before, rest = document.split(BEGIN)
    return f"{before}{BEGIN}\n{section()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
