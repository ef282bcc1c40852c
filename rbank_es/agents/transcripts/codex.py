"""Rollouts of Codex: JSON Lines `{timestamp, type, payload}` of one thread, in one of two forms.

The first line names the thread, and says in `history_mode` which form it is: `legacy` (or nothing), where each message
stands twice, or `paginated`, where it may stand once, as an item. A third form is refused, as Codex does itself. A fork
or a sub-agent begins with the lines of its parent under new times; they are the parent's, and are passed over.
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
    decoded,
    seconds_between,
    shortened,
    text_in,
    text_or_none,
)
from rbank_es.bank.recorded_values import recorded_count
from rbank_es.errors import BadImport
from rbank_es.limits import GIVEN_CHARS

FORM = "codex"

_MODES = ("legacy", "paginated")
_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_SILENT = frozenset({"token_usage_record", "world_state", "ghost_snapshot", "inter_agent_communication"})
_SILENT_EVENTS = frozenset(
    {
        *("agent_reasoning", "agent_reasoning_raw_content", "context_compacted", "patch_apply_begin"),
        *("patch_apply_end", "exec_command_begin", "mcp_tool_call_begin", "mcp_tool_call_end", "web_search_begin"),
        *("web_search_end", "entered_review_mode", "exited_review_mode", "undo_completed", "thread_name_updated"),
        *("plan_update", "thread_settings_applied", "warning", "view_image_tool_call", "turn_diff", "item_started"),
        *("background_event", "stream_error", "agent_reasoning_section_break", "thread_goal_updated"),
        "sub_agent_activity",
    }
)
_SILENT_ITEMS = frozenset({"ghost_snapshot", "compaction", "web_search_call", "compaction_summary", "other"})
_EXIT = re.compile(r"(?:Process exited with code|^Exit code:) (-?\d{1,5})", re.MULTILINE)
_INJECTED = ("<", "# AGENTS.md instructions")
_COPY_GAP_S = 1.0
"""The lines of a parent are written at once; the thread's own come after the first pause."""


def is_codex(fields: Mapping[str, Any]) -> bool:
    """Return whether an object has the keys of a line of a rollout."""
    return "payload" in fields and "type" in fields and "timestamp" in fields


def withdrawn_turns(lines: Iterable[Line]) -> frozenset[int]:
    """Return the numbers, from 0, of the turns that `thread_rolled_back` took back."""
    standing, count = list[int](), 0
    for line in lines:
        payload = line.fields.get("payload")
        match payload.get("type") if isinstance(payload, dict) else None:
            case "task_started":
                standing.append(count)
                count += 1
            case "thread_rolled_back":
                number = recorded_count(payload.get("num_turns")) or 0  # type: ignore[union-attr]
                del standing[len(standing) - min(number, len(standing)) :]
    return frozenset(range(count)) - frozenset(standing)


def codex_runs(
    lines: Iterable[Line], tally: LineTally, path: str = "the file", withdrawn: frozenset[int] = frozenset()
) -> Iterator[TranscriptRun]:
    """Yield the runs of a thread in order; `tally` is full when they are read.

    `withdrawn`: the numbers of the turns to leave out. Raises `BadImport` for a form that isn't known.
    """
    thread = _Thread(tally, path, withdrawn)
    for line in lines:
        yield from thread.read(line)
    yield from thread.closed(goes_on=False)


class _Thread:
    """The state of reading: the thread, whether its lines are its parent's, and the current turn."""

    def __init__(self, tally: LineTally, path: str, withdrawn: frozenset[int]) -> None:
        self._tally, self._path, self._withdrawn = tally, path, withdrawn
        self._meta: dict[str, Any] = {}
        self._is_forked = self._copies = False
        self._own_from: int | None = None
        self._last = ""
        self._turn: TranscriptRun | None = None
        self._turns = 0
        self._has_tasks = False
        self._user = ""
        # The totals that were counted in the turn, and the last one before it: a count may be written again.
        self._totals: dict[str, None] = {}
        self._model: str | None = None
        self._cwd: str | None = None

    # ---------------------------------------------------------------- lines

    def read(self, line: Line) -> Iterator[TranscriptRun]:
        """Take a line; yield the run that it ends."""
        kind, payload = line.fields.get("type"), line.fields.get("payload")
        if not isinstance(kind, str) or "timestamp" not in line.fields:
            self._tally.refuse(line.number, "no line of a Codex rollout")
            return
        if kind not in _TYPES:
            if kind in _SILENT:
                self._tally.known += 1
            else:
                self._tally.unknown[kind] += 1
            return
        self._tally.known += 1
        if not isinstance(payload, dict):
            self._tally.refuse(line.number, f"{kind!r} without a payload")
            return
        if kind == "session_meta":
            self._described(line, payload)
        elif self._is_copy(line):
            self._tally.copied += 1
        elif kind == "turn_context":
            self._model, self._cwd = text_or_none(payload.get("model")), text_or_none(payload.get("cwd"))
            if self._turn is not None:
                self._turn.model, self._turn.cwd = self._model or self._turn.model, self._cwd or self._turn.cwd
        elif kind == "response_item":
            self._responded(line, payload)
        elif kind == "event_msg":
            yield from self._happened(line, payload)

    def _described(self, line: Line, payload: dict[str, Any]) -> None:
        mode = payload.get("history_mode")
        if mode is not None and str(mode) not in _MODES:
            told = str(mode)[:GIVEN_CHARS]
            reason = f"a Codex rollout with history_mode {told!r}; this version knows {' and '.join(_MODES)}"
            raise BadImport(self._path, reason, line=line.number)
        if not self._meta:
            source = payload.get("source")
            self._meta = payload
            self._is_forked = bool(payload.get("forked_from_id")) or (isinstance(source, dict) and "subagent" in source)
            self._own_from = recorded_count(payload.get("subagent_history_start_ordinal"))
            self._last = str(line.fields["timestamp"])
        elif self._is_forked and payload.get("id") != self._meta.get("id") and self._turn is None:
            self._copies = True
            self._last = str(line.fields["timestamp"])

    def _is_copy(self, line: Line) -> bool:
        if not self._is_forked:
            return False
        ordinal = recorded_count(line.fields.get("ordinal"))
        if self._own_from is not None and ordinal is not None:
            return ordinal < self._own_from
        if self._copies:
            time = str(line.fields["timestamp"])
            self._copies = seconds_between(self._last, time) <= _COPY_GAP_S
            self._last = time
        return self._copies

    # ---------------------------------------------------------------- turns

    def closed(self, *, goes_on: bool) -> Iterator[TranscriptRun]:
        """Yield the current turn, ended."""
        run, self._turn = self._turn, None
        if run is None:
            return
        if not run.prompts and self._user:
            run.prompts.append(self._user)
        self._user = ""
        if self._turns - 1 in self._withdrawn:
            self._tally.withdrawn.append(run)
        elif run.prompts:
            run.close(goes_on=goes_on)
            yield run
        else:
            self._tally.outside += 1

    def _begun(self, line: Line, turn: str | None, text: str = "") -> None:
        meta, time = self._meta, str(line.fields["timestamp"])
        thread = text_or_none(meta.get("id")) or ""
        git = meta.get("git")
        source = meta.get("source")
        self._turns += 1
        self._totals = dict.fromkeys([*self._totals][-1:])
        self._turn = TranscriptRun(
            form=FORM,
            host=FORM,
            key=(thread, turn) if turn else (thread, time, text),
            session=thread,
            line=line.number,
            prompts=[text] if text else [],
            began=time,
            release=text_or_none(meta.get("cli_version")),
            cwd=self._cwd or text_or_none(meta.get("cwd")),
            branch=text_or_none(git.get("branch")) if isinstance(git, dict) else None,
            commit=text_or_none(git.get("commit_hash")) if isinstance(git, dict) else None,
            model=self._model,
            agent=thread if isinstance(source, dict) and "subagent" in source else None,
            parent=text_or_none(meta.get("parent_thread_id")) or text_or_none(meta.get("forked_from_id")),
            extra={"turn": turn} if turn else {},
        )

    def _asked(self, line: Line, text: str) -> Iterator[TranscriptRun]:
        run = self._turn
        if run is not None and (self._has_tasks or not run.acts):
            # What a user says while the agent works belongs to the turn.
            if text and text not in run.prompts:
                run.prompts.append(text)
            return
        yield from self.closed(goes_on=True)
        self._begun(line, None, text)

    def _happened(self, line: Line, payload: dict[str, Any]) -> Iterator[TranscriptRun]:
        run, kind, time = self._turn, str(payload.get("type")), str(line.fields["timestamp"])
        match kind:
            case "task_started" | "turn_started" if run is not None and run.extra.get("turn") == payload.get("turn_id"):
                pass  # the same line again
            case "task_started" | "turn_started":
                yield from self.closed(goes_on=True)
                self._has_tasks = True
                self._begun(line, text_or_none(payload.get("turn_id")))
            case "user_message":
                yield from self._asked(line, text_or_none(payload.get("message")) or "")
            case "item_completed":
                yield from self._completed(line, payload.get("item"))
            case "task_complete" | "turn_complete" | "turn_aborted" | "error":
                if run is not None:
                    _note_end(run, payload, time)
            case "agent_message" if run is not None:
                self._said(run, text_or_none(payload.get("message")) or "", time)
            case "token_count" if run is not None:
                self._counted(run, payload.get("info"), time)
            case "exec_command_end" if run is not None:
                _note_execution(run, payload.get("call_id"), payload, time)
            case _:
                known = {"agent_message", "token_count", "exec_command_end", "thread_rolled_back", *_SILENT_EVENTS}
                if kind not in known:
                    self._tally.unknown[f"event_msg.{kind}"] += 1

    def _completed(self, line: Line, item: Any) -> Iterator[TranscriptRun]:
        run, time = self._turn, str(line.fields["timestamp"])
        if not isinstance(item, dict):
            self._tally.refuse(line.number, "item_completed without an item")
            return
        match item.get("type"):
            case "UserMessage":
                yield from self._asked(line, text_in(item.get("content")))
            case _ if run is None:
                self._tally.outside += 1
            case "AgentMessage":
                self._said(run, text_in(item.get("content")), time)
            case "CommandExecution":
                _note_execution(run, item.get("id"), item, time)
            case "FileChange" | "McpToolCall" as kind:
                _note_item(run, kind, item, time)
            case "Reasoning" | "WebSearch" | "TodoList" | "ContextCompaction" | "Plan":
                pass
            case other:
                self._tally.unknown[f"item_completed.{other}"] += 1

    # ---------------------------------------------------------------- what the model sent and got

    def _responded(self, line: Line, payload: dict[str, Any]) -> None:
        run, time = self._turn, str(line.fields["timestamp"])
        kind = str(payload.get("type"))
        if kind == "message":
            self._messaged(run, payload, time)
        elif kind == "reasoning":
            if run is not None:
                summary = text_in(payload.get("summary")) or text_in(payload.get("content"))
                self._current(run, time).reasoning += summary
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._called(line, run, payload)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            call = run.call(str(payload.get("call_id"))) if run is not None else None
            if call is None:
                self._tally.refuse(line.number, "the result of a call that isn't in its turn")
            else:
                _note_output(call, payload.get("output"), time)
        elif kind not in _SILENT_ITEMS:
            self._tally.unknown[f"response_item.{kind}"] += 1

    def _messaged(self, run: TranscriptRun | None, payload: dict[str, Any], time: str) -> None:
        text = text_in(payload.get("content"))
        match payload.get("role"):
            case "assistant" if run is not None:
                self._said(run, text, time)
            case "developer" if run is not None:
                run.give(text)
            # The host's own words have this role too.
            case "user" if run is not None and not text.lstrip().startswith(_INJECTED):
                self._user = text
            case _:
                pass

    def _called(self, line: Line, run: TranscriptRun | None, payload: dict[str, Any]) -> None:
        id, given = text_or_none(payload.get("call_id")), payload.get("arguments", payload.get("input"))
        if isinstance(payload.get("action"), dict):
            given = payload["action"]
        if payload.get("type") == "function_call" and isinstance(given, str):
            text, given = given, decoded(given)
            if given is text:
                self._tally.refuse(line.number, "the arguments of a call are no JSON")
        if run is None or id is None:
            self._tally.outside += 1
        elif run.call(id) is None:
            time = str(line.fields["timestamp"])
            self._current(run, time)
            run.add(
                ToolUse(id=id, name=text_or_none(payload.get("name")) or "shell", arguments=shortened(given), at=time)
            )

    def _said(self, run: TranscriptRun, text: str, time: str) -> None:
        said = self._current(run, time)
        # The two forms of a message stand behind each other, and a count of tokens may stand between them.
        if text and text not in (each.text for each in run.messages[-2:]):
            said.text = f"{said.text}\n{text}" if said.text else text

    def _current(self, run: TranscriptRun, time: str) -> ModelMessage:
        """Return the message that the next count of tokens is for."""
        said = run.messages
        if said and said[-1].tokens_out is None:
            return said[-1]
        return run.message(f"message {len(said) + 1}", run.model or self._model, time)

    def _counted(self, run: TranscriptRun, info: Any, time: str) -> None:
        used = info.get("last_token_usage") if isinstance(info, dict) else None
        if not isinstance(used, dict):
            return
        total = str(info.get("total_token_usage"))
        if total in self._totals:
            return
        self._totals[total] = None
        self._current(run, time).use(used, "input_tokens", "output_tokens", "cached_input_tokens")


def _note_end(run: TranscriptRun, payload: Mapping[str, Any], time: str) -> None:
    run.ended = time
    match payload.get("type"):
        case "turn_aborted":
            run.ending = "interrupted"
        case "error":
            run.error = text_or_none(payload.get("message")) or "error"
        case _:
            run.last_words = text_or_none(payload.get("last_agent_message")) or ""
            run.ending = "failed" if run.error else "done"


def _note_output(call: ToolUse, output: Any, time: str) -> None:
    """Note the output of a call, with the exit code that stands in it."""
    code: Any = None
    if isinstance(output, dict):
        call.is_error, output = output.get("success") is False, output.get("content", output.get("output"))
    text = text_in(output)
    if text.startswith("{"):
        told = decoded(text)
        if isinstance(told, dict) and isinstance(told.get("output"), str):
            metadata = told.get("metadata")
            text, code = told["output"], metadata.get("exit_code") if isinstance(metadata, dict) else None
    elif (found := _EXIT.search(text)) is not None:
        code = int(found[1])
    # The item of a command tells more than the words that the model was shown.
    call.exit_code = call.exit_code if call.exit_code is not None else _code(code)
    call.answer(text, time)
    call.is_error = call.is_error or bool(call.exit_code)


def _note_execution(run: TranscriptRun, id: Any, item: Mapping[str, Any], time: str) -> None:
    """Note the item of a command, which may stand alone."""
    key = id if isinstance(id, str) and id else f"command {len(run.acts) + 1}"
    call = run.call(key)
    if call is None:
        call = ToolUse(id=key, name="exec_command", arguments={"command": item.get("command")}, at=time)
        run.add(call)
    if not call.answered:
        call.answer(text_or_none(item.get("aggregated_output")) or "", time)
    call.exit_code = _code(item.get("exit_code"))
    call.is_error = bool(call.exit_code) or item.get("status") in ("failed", "declined")
    lasted = item.get("duration")
    if isinstance(lasted, dict) and (secs := recorded_count(lasted.get("secs"))) is not None:
        call.duration_s = secs + (recorded_count(lasted.get("nanos")) or 0) / 1e9


def _note_item(run: TranscriptRun, kind: str, item: Mapping[str, Any], time: str) -> None:
    """Note a call of another tool that has an item, where no line told of it before."""
    id = text_or_none(item.get("id"))
    if id is None or run.call(id) is not None:
        return
    name = "apply_patch" if kind == "FileChange" else f"{item.get('server')}.{item.get('tool')}"
    call = ToolUse(id=id, name=name, arguments=item.get("changes", item.get("arguments")), at=time)
    call.answer(text_in(item.get("result")), time)
    call.is_error = item.get("status") in ("failed", "declined")
    run.add(call)


def _code(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
