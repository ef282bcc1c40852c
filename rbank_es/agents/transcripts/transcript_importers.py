"""The importers of transcripts: a file, or its bytes, as units of events; the registry of importers names them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.agents.transcripts.atif import atif_runs, decode_document, is_atif, reward_in, trial_outcome
from rbank_es.agents.transcripts.chat_messages import chat_runs, is_chat
from rbank_es.agents.transcripts.claude_code import claude_code_runs, is_claude_code
from rbank_es.agents.transcripts.codex import codex_runs, is_codex, withdrawn_turns
from rbank_es.agents.transcripts.gemini import gemini_runs, is_gemini
from rbank_es.agents.transcripts.transcript_events import EventWriter, identity_of
from rbank_es.agents.transcripts.transcript_lines import LineTally, read_lines
from rbank_es.agents.transcripts.transcript_run import TranscriptRun, TrialReward
from rbank_es.errors import BadImport, LimitExceeded
from rbank_es.events.redaction import secrets
from rbank_es.exchange.importer import Importer, ImportUnit, Parsed, sized
from rbank_es.exchange.json_records import JsonRecord, json_records
from rbank_es.exchange.streamed_files import stream_head
from rbank_es.limits.transcript_limits import (
    REWARD_FILE_BYTES,
    TRANSCRIPT_BATCH_UNITS,
    TRANSCRIPT_BYTES,
    TRANSCRIPT_GROUP_BYTES,
    TRANSCRIPT_LINE_BYTES,
    TRIAL_FILE_BYTES,
)
from rbank_es.system.files import opened, read_regular
from rbank_es.system.utc_times import utc_text

Runs = Callable[[str, BinaryIO, LineTally], Iterator[TranscriptRun]]
"""Returns the runs of an open file with that path."""

_MARK = b"\xef\xbb\xbf"


def raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file from its beginning; of one that is too long its beginning, which is no JSON."""
    file.seek(0)
    first = True
    while line := file.readline(TRANSCRIPT_LINE_BYTES):
        yield line.removeprefix(_MARK) if first else line
        first = False
        while len(line) == TRANSCRIPT_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(TRANSCRIPT_LINE_BYTES)


def _claude_code(path: str, file: BinaryIO, tally: LineTally) -> Iterator[TranscriptRun]:
    return claude_code_runs(read_lines(raw_lines(file), tally), tally)


def _gemini(path: str, file: BinaryIO, tally: LineTally) -> Iterator[TranscriptRun]:
    whole = _whole(path, file)  # also of lines, because a later one replaces a message
    try:
        document = msgspec.json.decode(whole)
    except (ValueError, RecursionError):
        return gemini_runs(read_lines(raw_lines(file), tally), tally)
    return gemini_runs(read_lines([msgspec.json.encode(document)], tally), tally)


def _codex(path: str, file: BinaryIO, tally: LineTally) -> Iterator[TranscriptRun]:
    # Read for this alone where it is needed: what a rollback takes back stands before it.
    marked = (line for line in raw_lines(file) if b'"thread_rolled_back"' in line or b'"task_started"' in line)
    withdrawn = withdrawn_turns(read_lines(marked, LineTally()))
    yield from codex_runs(read_lines(raw_lines(file), tally), tally, path, withdrawn)


def _chat(path: str, file: BinaryIO, tally: LineTally) -> Iterator[TranscriptRun]:
    is_lines = any(read_lines(islice(raw_lines(file), 1), LineTally()))
    return chat_runs(read_lines(raw_lines(file), tally) if is_lines else _records(path, file, tally), tally)


def _records(path: str, file: BinaryIO, tally: LineTally) -> Iterator[JsonRecord]:
    for record in json_records(path, _whole(path, file)):
        tally.lines += 1
        yield record


def _atif(path: str, file: BinaryIO, tally: LineTally) -> Iterator[TranscriptRun]:
    document = decode_document(path, _whole(path, file))
    tally.lines = tally.known = 1
    return atif_runs(path, document, trial_beside(Path(path)))


def _whole(path: str, file: BinaryIO) -> bytes:
    """Return the bytes of a file that must be held. Raises `BadImport` for one that is too large."""
    size, most = file.seek(0, os.SEEK_END), limits.IMPORT_FILE_BYTES
    if size > most:
        raise BadImport(path, f"{size:,} bytes are over the limit of {most:,}; split it between two turns")
    file.seek(0)
    return file.read(most).removeprefix(_MARK)


def trial_beside(trajectory: Path) -> TrialReward | None:
    """Return the outcome of the trial whose folder has this file as `agent/…`; None where it lies in none.

    Raises `BadImport` for a `result.json` that is broken: a verdict must not be lost silently.
    """
    folder = trajectory.parent.parent
    if trajectory.parent.name != "agent" or not (folder / "result.json").is_file():
        return None
    path = folder / "result.json"
    try:
        result = decode_document(str(path), read_regular(path, TRIAL_FILE_BYTES))
    except (OSError, LimitExceeded) as error:
        raise BadImport(str(path), str(getattr(error, "strerror", None) or error)) from None
    return trial_outcome(result, _reward_file(folder / "verifier"))


def _reward_file(folder: Path) -> float | None:
    with suppress(OSError, LimitExceeded, ValueError):
        return reward_in(msgspec.json.decode(read_regular(folder / "reward.json", REWARD_FILE_BYTES)))
    with suppress(OSError, LimitExceeded, ValueError):
        return float(read_regular(folder / "reward.txt", REWARD_FILE_BYTES))
    return None


def streamed_runs(path: Path, tally: LineTally) -> Iterator[TranscriptRun]:
    """Yield the runs of one transcript of any size; `tally` is full when they are read.

    Raises `BadImport` for a file that is none, OSError.
    """
    head = stream_head(path)
    if head is None or head.importer.form not in _READERS:
        raise BadImport(str(path), "no transcript of a known form")
    with opened(path, follow=True) as fd, os.fdopen(fd, "rb", closefd=False) as file:
        yield from _READERS[head.importer.form](str(path), file, tally)
    if not tally.known:
        _check_known(str(path), tally)


def _pieces_of(form: str, path: str, file: BinaryIO) -> Iterator[Parsed]:
    """Yield a file in pieces: each with some of its runs, the last with what is said of all."""
    tally, writer = LineTally(), EventWriter(secrets(), utc_text(datetime.now(UTC)))
    empty = Parsed(path=path, form=form, units=())
    batch, size, count = list[ImportUnit](), 0, 0
    met = set[str]()
    for run in _READERS[form](path, file, tally):
        count += 1
        made = [sized(path, unit) for unit in writer.units(run)]
        tally.unanswered += not made
        # A record that comes again is compared with what is stored of it by then.
        if batch and (
            len(batch) + len(made) > TRANSCRIPT_BATCH_UNITS
            or size > TRANSCRIPT_GROUP_BYTES
            or any(unit.events[0].id in met for unit in made)
        ):
            yield replace(empty, units=tuple(batch))
            batch, size, met = [], 0, set()
        batch += made
        size += sum(unit.size for unit in made)
        met |= {unit.events[0].id for unit in made}
    if not count:
        _check_known(path, tally)
    yield replace(
        empty,
        units=tuple(batch),
        notes=tally.sentences() + (() if count else ("it has no turn of a user",)),
        lines_refused=tally.refused,
        refusals=tuple(tally.refusals),
        unknown_types=dict(tally.unknown),
        withdrawn=dict(identity_of(run) for run in tally.withdrawn),
    )


def _check_known(path: str, tally: LineTally) -> None:
    """Raise `BadImport` for a file without a run whose lines can't be read, or are of no type that is known."""
    if not (tally.refused or tally.unknown):
        return
    told = [f"line {each.line:,}: {each.reason}" for each in tally.refusals[: limits.CHOICES_NAMED]]
    told += [f"{count:,} of the unknown type {name}" for name, count in tally.unknown.most_common(limits.CHOICES_NAMED)]
    first = tally.refusals[0].line if tally.refusals else None
    raise BadImport(path, f"no turn of a user can be read in {tally.lines:,} lines: {'; '.join(told)}", line=first)


def _merged(parts: Iterable[Parsed]) -> Parsed:
    pieces = list(parts)
    return replace(pieces[-1], units=tuple(unit for piece in pieces for unit in piece.units))


def _importer(form: str, about: str, recognise: Callable[[dict[str, Any]], bool]) -> Importer:
    def stream(path: Path) -> Iterator[Parsed]:
        with opened(path, follow=True) as fd, os.fdopen(fd, "rb", closefd=False) as file:
            size = os.fstat(fd).st_size
            if size > TRANSCRIPT_BYTES:
                raise LimitExceeded(f"bytes of {path}", size, TRANSCRIPT_BYTES, "split it at line ends")
            yield from _pieces_of(form, str(path), file)

    return Importer(
        form=form,
        about=about,
        recognise=lambda opening: recognise(opening.fields),
        parse=lambda path, data: _merged(_pieces_of(form, path, BytesIO(data))),
        stream=stream,
    )


_READERS: dict[str, Runs] = {
    "atif": _atif,
    "gemini-cli": _gemini,
    "claude-code": _claude_code,
    "codex": _codex,
    "chat": _chat,
}
ATIF = _importer("atif", "an ATIF trajectory (schema_version)", is_atif)
GEMINI = _importer("gemini-cli", "a Gemini CLI transcript (projectHash)", is_gemini)
CLAUDE_CODE = _importer("claude-code", "a Claude Code transcript (sessionId)", is_claude_code)
CODEX = _importer("codex", "a Codex rollout (payload)", is_codex)
CHAT = _importer("chat", "chat messages (role)", is_chat)
