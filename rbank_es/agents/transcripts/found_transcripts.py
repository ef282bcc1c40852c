"""The transcripts that lie on this machine: where agents keep them, and how much there is. Nothing is imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es.agents.transcripts.transcript_importers import streamed_runs
from rbank_es.agents.transcripts.transcript_lines import LineTally
from rbank_es.errors import BadInput
from rbank_es.system.files import kind_of
from rbank_es.system.utc_times import utc_text

_SUFFIXES = (".jsonl", ".json")
_COMPRESSED = ".jsonl.zst"


class TranscriptPlace(NamedTuple):
    """A folder in which an agent keeps transcripts; of the Gemini CLI, those whose path has `part`."""

    agent: str
    folder: Path
    part: str = ""


class FoundTranscripts(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in one place: files, the distinct turns of users in them, bytes, and when the last file changed.

    `unreadable` counts files of no form that is known, `compressed` those that only their agent unpacks.
    """

    agent: str
    folder: str
    files: int
    turns: int
    bytes: int
    last: str | None
    unreadable: int = 0
    compressed: int = 0


def transcript_places(environment: Mapping[str, str], home: Path) -> list[TranscriptPlace]:
    """Return the places that agents use, those that exist, each once. Pure but for looking whether they exist."""
    config = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    named = [each.strip() for each in environment.get("CLAUDE_CONFIG_DIR", "").split(",") if each.strip()]
    claude = [*map(Path, named), home / ".claude", Path(config) / "claude"]
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    places = [TranscriptPlace("claude-code", folder / "projects") for folder in claude]
    places += [TranscriptPlace("codex", codex / name) for name in ("sessions", "archived_sessions")]
    places.append(TranscriptPlace("gemini-cli", home / ".gemini" / "tmp", "chats"))
    found: dict[Path, TranscriptPlace] = {}
    for place in places:
        if place.folder.is_dir():
            found.setdefault(place.folder.resolve(), place)
    return list(found.values())


def find_transcripts(
    places: list[TranscriptPlace], on_file: Callable[[int], None] = lambda size: None
) -> Iterator[FoundTranscripts]:
    """Read every transcript of the places; yield what lies in each. `on_file` gets the bytes of each file read."""
    for place in places:
        keys, files, size, unreadable, compressed, last = set[int](), 0, 0, 0, 0, 0.0
        for path in files_of(place):
            status = path.stat()
            last = max(last, status.st_mtime)
            size += status.st_size
            files += 1
            if path.name.endswith(_COMPRESSED):
                compressed += 1
                continue
            try:
                keys.update(hash((run.form, *run.key)) for run in streamed_runs(path, LineTally()))
            except (BadInput, OSError):
                unreadable += 1
            on_file(status.st_size)
        yield FoundTranscripts(
            agent=place.agent,
            folder=str(place.folder),
            files=files,
            turns=len(keys),
            bytes=size,
            last=utc_text(datetime.fromtimestamp(last, UTC)) if files else None,
            unreadable=unreadable,
            compressed=compressed,
        )


def files_of(place: TranscriptPlace) -> list[Path]:
    """Return the regular files of a place that may be transcripts, by path; links are passed over."""
    below = (Path(folder, name) for folder, _, names in os.walk(place.folder) for name in names)
    return sorted(
        path
        for path in below
        if path.name.endswith((*_SUFFIXES, _COMPRESSED)) and not path.name.endswith(".meta.json")
        if (not place.part or place.part in path.parts) and kind_of(path) == "a file"
    )
