"""Transcripts: command lines with what they print, made by running them and compared by running them again.

A file of `transcripts/` is about one command. `## ` begins a scene, which has a working directory of its own and may be
(slow); `@ ` names the banks in it; `$ ` is a command line, and what is indented below it is what came of it: its
output, its messages, its exit code if that is not 0, and the files and banks that it changed. Any other line is for
the reader.

    python -m tests.cli.transcript            write all transcripts again, from what their commands print now
    python -m tests.cli.transcript append     that of one command

A command line is `rbank-es` with its arguments, `<<< TEXT` for standard input, `| pick PATH...` for parts of a JSON
document, and `| grep WORD` for some lines; or `cat > FILE <<END`, a file up to a line `END`.
"""

from __future__ import annotations

import atexit
import json
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.kilns import judged_bank, kilns_bank
from tests.cli.misled import kin_bank, misled_bank, pending_bank, twice_bank
from tests.cli_runner import ROOT, SAMPLE, digest_of, run

FOLDER = Path(__file__).parent / "transcripts"
INDENT = "    "
VARYING = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"(?<=-)([0-9a-f]{12}\b|[0-9a-f]{8}(?=-\d))"), "<x>"),
    (re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b"), "<digest>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?Z?)?)?\b"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? m?s\b"), "<duration>"),
    (re.compile(r"\b\d+\.\d [KM]iB\b"), "<size>"),
    (re.compile(r'"(salt|crc)":"[^"]*"|"(dur)":\d+'), r'"\1\2":<x>'),
)
"""What differs from run to run, and the word for it."""


@cache
def _shared_sample() -> Path:
    """The sample bank with its read models up to date, for all scenes that only look at it."""
    folder = Path(tempfile.mkdtemp(prefix="rbank-sample-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(SAMPLE, folder / "sample", ignore=shutil.ignore_patterns("*lock"))
    run("project", "./sample", cwd=folder)
    return folder / "sample"


def _sample_bank(bank: Path) -> None:
    bank.parent.mkdir(exist_ok=True)
    bank.symlink_to(_shared_sample())


def _agent_tasks(place: Path) -> None:
    from tests.cli.agent_tasks import furnished  # it loads dspy

    furnished(place)


BANKS: dict[str, Callable[[Path], Any]] = {
    "notes": kilns_bank,
    "judged": judged_bank,
    "misled": lambda bank: misled_bank(bank).close(),
    "pending": pending_bank,
    "kin": kin_bank,
    "twice": twice_bank,
    "tasks": lambda bank: _agent_tasks(bank.parent.parent),
    "sample": _sample_bank,
}
"""The banks that a scene can name, below `logs`; and tasks for agents."""


class Scene(NamedTuple):
    """A part of a transcript with a working directory of its own: its title, and its lines."""

    title: str
    lines: tuple[str, ...]


def scenes(text: str) -> Iterator[Scene]:
    """Yield the scenes of a transcript; what stands before the first is one that has no commands."""
    title, lines, inside = "", list[str](), False
    for line in text.splitlines():
        inside = line.startswith("$ cat > ") or (inside and line != "END")
        if line.startswith("## ") and not inside:
            yield Scene(title, tuple(lines))
            title, lines = line, []
        else:
            lines.append(line)
    yield Scene(title, tuple(lines))


def played(scene: Scene, place: Path) -> str:
    """Return a scene as it is now: its words and command lines, and what comes of these in a new directory."""
    out, left = [scene.title] if scene.title else [], list(scene.lines)
    while left:
        line = left.pop(0)
        if (line or next(filter(None, left), "")).startswith(INDENT):
            continue  # what came of the command when it was recorded; it may have empty lines
        out.append(line)
        if line.startswith("@ "):
            for bank in line[2:].split():
                BANKS[bank](place / "logs" / bank)
        elif line.startswith("$ cat > "):
            end = left.index("END")
            out += left[: end + 1]
            (place / line.split()[3]).write_text("\n".join(left[:end]) + "\n", encoding="utf-8")
            del left[: end + 1]
        elif line.startswith("$ "):
            out += [f"{INDENT}{each}".rstrip() for each in outcome(line[2:], place)]
    return "\n".join(out) + "\n"


def outcome(line: str, place: Path) -> list[str]:
    """Run one command line; return what it prints, its exit code if that is not 0, and what it changed."""
    command, *filters = re.split(r" \| (?=pick |grep )", line)
    command, _, given = command.partition(" <<< ")
    before = digest_of(place)
    name, *arguments = shlex.split(command)
    assert name == "rbank-es", line
    done = run(*arguments, cwd=place, stdin=shlex.split(given)[0] if given else "", code=None)
    text = done.out
    for each in filters:
        text = _filtered(text, *shlex.split(each))
    told = [*text.splitlines(), *done.err.splitlines()]
    told += [f"[exit {done.code}]"] if done.code else []
    changed = sorted({_bank_of(name) for name, _ in before.items() ^ digest_of(place).items()})
    told += [f"[changed: {', '.join(changed)}]"] if changed else []
    return [_settled(each, place) for each in told]


def _filtered(text: str, how: str, *words: str) -> str:
    if how == "grep":
        return "\n".join(line for line in text.splitlines() if any(word in line for word in words))
    documents = (
        [json.loads(text)] if text.startswith("{\n") or text.startswith("[") else map(json.loads, text.splitlines())
    )
    return "\n".join(
        "; ".join(f"{path}: {json.dumps(_picked(each, path.split('.')), ensure_ascii=False)}" for path in words)
        for each in documents
    )


def _picked(found: Any, path: list[str]) -> Any:
    """Return the part of a document at a path, None if it has none; `*` is every entry of a list, `#` their number."""
    if not path or found is None:
        return found
    step, *rest = path
    if step == "#":
        return len(found)
    if step == "*":
        return [_picked(each, rest) for each in found]
    return _picked(found[int(step)] if isinstance(found, list) else found.get(step), rest)


def _bank_of(file: str) -> str:
    """Name the bank that a changed file is part of, else the file."""
    return re.sub(r"/(\d{20}\.\w+|[\w.-]*lock)$", "", file)


def _settled(text: str, place: Path) -> str:
    for path, word in ((place.resolve(), "PLACE"), (place, "PLACE"), (ROOT, "ROOT")):
        text = text.replace(str(path), word)
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text.rstrip()


def record(path: Path) -> None:
    """Write a transcript again, from what its commands print now."""
    parts = []
    for scene in scenes(path.read_text(encoding="utf-8")):
        with tempfile.TemporaryDirectory() as place:
            parts.append(played(scene, Path(place)))
    path.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    for each in [FOLDER / f"{name}.txt" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.txt")):
        record(each)
