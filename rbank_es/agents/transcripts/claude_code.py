"""Transcripts of Claude Code: JSON Lines of a session, or of one of its sub-agents; without a version of the form.

One message of the model is several lines with the same `message.id`, each with its usage. A session that is forked,
resumed, compacted or copied has lines of another one again: with fresh uuids, the same uuids, or twice in one file. So
lines are known by what stays: the id of a tool's call, the id of a message and its block, a user's time and words. The
links between lines may point nowhere or in circles, so the order of the file counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rbank_es.agents.transcripts.transcript_lines import Line, LineTally
from rbank_es.agents.transcripts.transcript_run import (
    ModelMessage,
    ToolUse,
    TranscriptRun,
    shortened,
    text_in,
    text_or_none,
)
from rbank_es.bank.recorded_values import recorded_count
from rbank_es.limits.transcript_limits import TRANSCRIPT_ORPHANS

FORM = "claude-code"

_TURNS = frozenset({"user", "assistant", "attachment", "system"})
_SILENT = frozenset(
    {
        *("summary", "progress", "file-history-snapshot", "queue-operation", "last-prompt", "custom-title", "ai-title"),
        *("agent-name", "agent-color", "agent-setting", "tag", "pr-link", "mode", "permission-mode", "worktree-state"),
        *("content-replacement", "attribution-snapshot", "speculation-accept", "task-summary", "started", "result"),
    }
)
"""Types of lines that tell nothing of a run."""

_INTERRUPTED = "[Request interrupted"
_MACHINES = ("<command-", "<local-command-", "<bash-", "<task-notification", "<system-reminder", "<user-memory-input")
"""Beginnings of users' lines that the host wrote."""

_EXIT = re.compile(r"\A(?:Error: )?Exit code (\d{1,3})\b")
_FINAL = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
_STARTS_COMMANDS = frozenset({"Bash"})
_Results = dict[str, tuple[Line, Mapping[str, Any]]]


def is_claude_code(fields: Mapping[str, Any]) -> bool:
    """Return whether an object has the keys of a line of a session."""
    noted = {"sessionId", "uuid", "leafUuid", "parentUuid", "snapshot"}
    return isinstance(fields.get("type"), str) and not noted.isdisjoint(fields) and "seq" not in fields


def claude_code_runs(lines: Iterable[Line], tally: LineTally) -> Iterator[TranscriptRun]:
    """Yield the runs of a session in the order in which they end; `tally` is full when they are read.

    A sub-agent's turn is a run of its own: its file, or its lines in the file of its session, name the session.
    """
    session = _Session(tally)
    for line in lines:
        yield from session.read(line)
    yield from session.rest()


class _Session:
    """The state of reading: the current turn of the user and of each sub-agent, and what was met before."""

    def __init__(self, tally: LineTally) -> None:
        self._tally = tally
        self._turns: dict[str | None, TranscriptRun] = {}
        # Hashes, because a file of gigabytes has millions of lines.
        self._met: set[int] = set()
        self._early: _Results = {}
        self._given: list[str] = []

    def read(self, line: Line) -> Iterator[TranscriptRun]:
        """Take a line; yield the run that it ends."""
        fields = line.fields
        kind = text_or_none(fields.get("type"))
        if kind not in _TURNS:
            self._pass_over(line, kind)
            return
        self._tally.known += 1
        if kind == "system":
            return
        if kind == "attachment":
            self._attached(fields)
            return
        message = fields.get("message")
        if not isinstance(message, dict):
            self._tally.refuse(line.number, f"{kind!r} without a message")
        elif kind == "assistant":
            self._said(line, message)
        else:
            yield from self._asked(line, message)

    def rest(self) -> Iterator[TranscriptRun]:
        """Yield the runs at the end of the file."""
        for run in self._turns.values():
            run.close(goes_on=False)
            yield run
        for line, _ in self._early.values():
            self._tally.refuse(line.number, "the result of a call that isn't in the file")

    def _pass_over(self, line: Line, kind: str | None) -> None:
        if kind in _SILENT:
            self._tally.known += 1
        elif kind is not None and is_claude_code(line.fields):
            self._tally.unknown[kind] += 1
        else:
            self._tally.refuse(line.number, "no line of a Claude Code session")

    def _is_new(self, *key: object) -> bool:
        mark = hash(key)
        if mark in self._met:
            return False
        self._met.add(mark)
        return True

    # ---------------------------------------------------------------- a user's lines

    def _asked(self, line: Line, message: Mapping[str, Any]) -> Iterator[TranscriptRun]:
        fields, content = line.fields, message.get("content")
        results = [part for part in content if _is_result(part)] if isinstance(content, list) else []
        for part in results:
            self._answered(line, part)
        if results or fields.get("isMeta") or fields.get("isCompactSummary"):
            return
        text = text_in(content)
        agent = _agent_of(fields)
        if text.startswith(_INTERRUPTED):
            if self._is_new("interrupted", str(fields.get("timestamp"))) and agent in self._turns:
                self._turns[agent].ending = "interrupted"
        elif not text.strip() and not isinstance(content, list):
            self._tally.refuse(line.number, "a user's line without words")
        elif not text.lstrip().startswith(_MACHINES) and self._is_new("user", str(fields.get("timestamp")), text):
            if (before := self._turns.pop(agent, None)) is not None:
                before.close(goes_on=True)
                yield before
            self._turns[agent] = self._begun(line, text, agent)

    def _begun(self, line: Line, text: str, agent: str | None) -> TranscriptRun:
        fields = line.fields
        session, time = text_or_none(fields.get("sessionId")) or "", text_or_none(fields.get("timestamp"))
        run = TranscriptRun(
            form=FORM,
            host=FORM,
            # Never the session or the uuid, because a fork has others.
            key=(time or text_or_none(fields.get("uuid")) or "", text),
            session=session,
            line=line.number,
            prompts=[text],
            began=time,
            release=text_or_none(fields.get("version")),
            cwd=text_or_none(fields.get("cwd")),
            branch=text_or_none(fields.get("gitBranch")),
            agent=agent,
            parent=session if agent is not None else None,
            copied="forkedFrom" in fields,
        )
        for given in self._given:
            run.give(given)
        self._given.clear()
        return run

    def _answered(self, line: Line, part: Mapping[str, Any]) -> None:
        id = text_or_none(part.get("tool_use_id"))
        if id is None:
            self._tally.refuse(line.number, "a result without the id of its call")
            return
        run = self._turns.get(_agent_of(line.fields))
        call = run.call(id) if run else None
        if call is None:
            if not self._is_known("call", id) and len(self._early) < TRANSCRIPT_ORPHANS:
                self._early.setdefault(id, (line, part))
        elif not call.answered:
            _note_result(call, line.fields, part)
            if run is not None:
                run.ended = call.ended or run.ended

    def _is_known(self, *key: object) -> bool:
        return hash(key) in self._met

    # ---------------------------------------------------------------- the model's lines

    def _said(self, line: Line, message: Mapping[str, Any]) -> None:
        fields = line.fields
        run = self._turns.get(_agent_of(fields))
        id = text_or_none(message.get("id")) or text_or_none(fields.get("uuid")) or f"line {line.number}"
        blocks = message.get("content")
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        if not isinstance(blocks, list):
            self._tally.refuse(line.number, "a message without content")
            return
        if run is None:
            self._tally.outside += 1
            return
        if fields.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            if self._is_new("error", id):
                run.error, run.ended = _error_in(blocks), text_or_none(fields.get("timestamp")) or run.ended
            return
        new = [block for block in blocks if isinstance(block, dict) and self._is_new(*_block_key(id, block))]
        # A model may end a turn without a word.
        if not new and blocks:
            return
        at = text_or_none(fields.get("timestamp"))
        run.error, run.ended = "", at or run.ended
        said = run.message(id, text_or_none(message.get("model")), at)
        _note_usage(said, message.get("usage"))
        said.is_last = text_or_none(message.get("stop_reason")) in _FINAL
        for block in new:
            self._note_block(run, said, block, at)

    def _note_block(self, run: TranscriptRun, said: ModelMessage, block: Mapping[str, Any], at: str | None) -> None:
        match block.get("type"):
            case "text":
                said.text += text_in([block])
            case "thinking":
                said.reasoning += text_or_none(block.get("thinking")) or ""
            case "tool_use" | "server_tool_use":
                id, name = text_or_none(block.get("id")), text_or_none(block.get("name"))
                call = ToolUse(id=id or said.id, name=name or "unknown", arguments=shortened(block.get("input")), at=at)
                run.add(call)
                if call.id in self._early:
                    line, part = self._early.pop(call.id)
                    _note_result(call, line.fields, part)
            case _:
                pass

    def _attached(self, fields: Mapping[str, Any]) -> None:
        given = fields.get("attachment")
        if not isinstance(given, dict) or given.get("type") != "hook_additional_context":
            return
        content = given.get("content")
        texts = [text for text in (content if isinstance(content, list) else [content]) if isinstance(text, str)]
        run = self._turns.get(_agent_of(fields))
        # At the start of a session it stands before the first words of its user.
        if run is None or given.get("hookEvent") == "SessionStart":
            self._given += texts
            return
        for text in texts:
            run.give(text)


def _agent_of(fields: Mapping[str, Any]) -> str | None:
    """Return the id of the sub-agent whose line it is; `side` where an older version names none."""
    return (text_or_none(fields.get("agentId")) or "side") if fields.get("isSidechain") is True else None


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


def _block_key(message: str, block: Mapping[str, Any]) -> tuple[object, ...]:
    if block.get("type") in ("tool_use", "server_tool_use") and isinstance(block.get("id"), str):
        return "call", block["id"]
    return message, str(block.get("type")), str(block.get("text") or block.get("thinking") or block.get("signature"))


def _error_in(blocks: list[Any]) -> str:
    return text_in(blocks) or "the model didn't answer"


def _note_usage(said: ModelMessage, usage: Any) -> None:
    """Note the tokens of a message: every line repeats them, the last ones are the whole."""
    if not isinstance(usage, dict):
        return
    cached = recorded_count(usage.get("cache_read_input_tokens"))
    parts = [recorded_count(usage.get(key)) for key in ("input_tokens", "cache_creation_input_tokens")] + [cached]
    known = [part for part in parts if part is not None]
    said.tokens_in = sum(known) if known else None
    said.tokens_out, said.tokens_cached = recorded_count(usage.get("output_tokens")), cached


def _note_result(call: ToolUse, fields: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    """Note a result: its text, and of a command the exit code, which stands in the text of a failed one alone."""
    text, told = text_in(part.get("content")), fields.get("toolUseResult")
    call.answer(text, text_or_none(fields.get("timestamp")))
    call.is_error = part.get("is_error") is True
    details: Mapping[str, Any] = told if isinstance(told, dict) else {}
    call.agent = text_or_none(details.get("agentId"))
    lasted = details.get("totalDurationMs", details.get("durationMs"))
    call.duration_s = lasted / 1000 if isinstance(lasted, int | float) and lasted >= 0 else None
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    background = details.get("backgroundTaskId") or arguments.get("run_in_background")
    call.is_stopped = bool(background) or details.get("interrupted") is True
    failed = _EXIT.match(text) or (_EXIT.match(told) if isinstance(told, str) else None)
    if failed is not None:
        call.exit_code = int(failed[1])
    elif call.name in _STARTS_COMMANDS and not call.is_error and not call.is_stopped:
        call.exit_code = 0
