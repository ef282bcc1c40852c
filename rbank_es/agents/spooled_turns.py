"""Turns of a spool: what hooks saw of one prompt and of what followed, and the events that tell of it.

With a transcript, its run is told as an import tells it, and the recall is added: what was searched, what was given,
and whether the transcript proves that it arrived. Without one, the spool alone tells of the run. Ids follow from the
run, so that taking a spool in twice adds nothing. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.agents.hook_process import MARKER
from rbank_es.agents.spool import seconds_of
from rbank_es.agents.transcripts.transcript_lines import holdable
from rbank_es.agents.transcripts.transcript_run import Ending, ToolUse, TranscriptRun, decoded, text_or_none
from rbank_es.bank.recorded_values import recorded_amount
from rbank_es.events import ContextBuilt, Event, LayerUse, MemoriesRetrieved, RunFinished, RunStarted
from rbank_es.events.derived_ids import derived_id
from rbank_es.exchange.importer import ImportUnit
from rbank_es.limits import hook_limits
from rbank_es.system.utc_times import utc_text

Line = dict[str, Any]
FORM = "hooks"
"""The form of a run that hooks alone tell of."""

_EXIT = re.compile(r"\A(?:Error: )?Exit code:? (\d{1,3})\b|Process exited with code (\d{1,5})")

_ENDS: Mapping[str, Ending] = {"stop": "done", "failure": "failed", "interrupt": "interrupted", "end": "interrupted"}


class SpooledTurn(NamedTuple):
    """A prompt with the lines that belong to it. `ending` is `open` while more may come."""

    prompt: Line
    lines: tuple[Line, ...]
    recalls: tuple[Line, ...]
    ending: Ending

    @property
    def all_lines(self) -> tuple[Line, ...]:
        """Every line of the turn."""
        return (self.prompt, *self.lines, *self.recalls)

    @property
    def transcript(self) -> str | None:
        """The path of the session's transcript, as the last line that has one names it."""
        return _first_text(reversed(self.all_lines), "transcript")


def _first_text(lines: Iterable[Line], name: str) -> str | None:
    """Return the first text that lines have under a name."""
    return next(filter(None, (text_or_none(line.get(name)) for line in lines)), None)


def turns_of(lines: Sequence[Line], now_s: float) -> list[SpooledTurn]:
    """Return the turns in order of their prompts. Lines that came twice count once; those of no turn are left out.

    A turn that is older than `SPOOL_WAIT_S` gets no more lines.
    """
    made: list[tuple[Line, list[Line], list[Line]]] = []
    current: dict[str, int] = {}
    by_prompt: dict[str, int] = {}
    followed = set[int]()
    for line in _once(lines):
        session, kind = str(line.get("session") or ""), line.get("kind")
        if kind == "prompt":
            followed |= {current[session]} if session in current else set()
            current[session] = by_prompt[line["id"]] = len(made)
            made.append((line, [], []))
        elif kind == "recall" and str(line.get("of")) in by_prompt:
            made[by_prompt[str(line.get("of"))]][2].append(line)
        # A sub-agent has a run of its own, which its transcript tells of.
        elif session in current and kind in ("tool", *_ENDS) and not line.get("agent"):
            made[current[session]][1].append(line)
    return [
        SpooledTurn(prompt, tuple(some), tuple(recalls), _ending(prompt, some, number in followed, now_s))
        for number, (prompt, some, recalls) in enumerate(made)
    ]


def matching_run(turn: SpooledTurn, runs: Sequence[TranscriptRun]) -> TranscriptRun | None:
    """Return the run of a transcript that a turn is part of; None where none is.

    The marker of its recall decides, then the host's id of the turn, then the words of the prompt, nearest in time.
    """
    marks = [_mark(recall) for recall in turn.recalls if recall.get("text")]
    key = (str(turn.prompt.get("session")), str(turn.prompt.get("turn")))
    words = str(turn.prompt.get("prompt") or "")[: hook_limits.PROMPT_COMPARED_CHARS]
    for run in runs:
        if any(mark in text for mark in marks for text in run.contexts) or run.key == key:
            return run
    apart = [(abs(_seconds(run.began) - seconds_of(turn.prompt)), run) for run in runs]
    # By time first: to compare words, the whole prompt is redacted.
    near = [each for each in apart if each[0] <= hook_limits.PROMPT_APART_S]
    alike = [(apart_s, run) for apart_s, run in near if any(_is_same(prompt, words) for prompt in run.prompts)]
    return min(alike, key=lambda each: each[0], default=(0.0, None))[1]


def run_of(turn: SpooledTurn) -> TranscriptRun:
    """Return the run that a spool alone tells of, in the form of a transcript's."""
    prompt = turn.prompt
    host, session, id = (
        str(prompt.get("host") or FORM),
        str(prompt.get("session") or ""),
        text_or_none(prompt.get("turn")),
    )
    # With a turn's id of Codex, its rollout tells of the same run, whenever it comes in.
    named = host == "codex" and id is not None
    stops = [line for line in turn.lines if line.get("kind") in _ENDS]
    run = TranscriptRun(
        form=host if named else FORM,
        host=host,
        key=(session, str(id)) if named else (host, session, str(prompt["id"])),
        session=session,
        line=0,
        prompts=[str(prompt.get("prompt") or "")],
        began=_time(prompt),
        ended=_time(turn.lines[-1]) if turn.lines else None,
        ending="interrupted" if turn.ending == "open" else turn.ending,
        error=_first_text(stops, "error") or "",
        cwd=text_or_none(prompt.get("cwd")),
        model=_first_text(turn.all_lines, "model"),
        last_words=_first_text(reversed(stops), "answer") or "",
    )
    for line in turn.lines:
        if line.get("kind") == "tool":
            run.add(_tool_use(line))
    return run


def with_recalls(
    units: Sequence[ImportUnit], turns: Sequence[SpooledTurn], *, proved: bool | None, unsent: tuple[str, ...] = ()
) -> list[ImportUnit]:
    """Return the units of a run with the recalls of its turns behind its start.

    `proved`: whether a transcript has the markers of all that was given; None where there is no transcript. `unsent`
    are the items of which it has none.
    """
    told = {"recall_sent": proved, "recall_unsent": unsent}
    first = units[0].events[0]
    assert isinstance(first, RunStarted)
    recalled = [event for turn in turns for recall in turn.recalls for event in _events_of(recall, first)]
    made: list[ImportUnit] = []
    for number, unit in enumerate(units):
        events = [replace(each, **told) if isinstance(each, RunFinished) else each for each in unit.events]
        if not number:
            events[1:1] = recalled
        made.append(replace(unit, events=tuple(events), lines=frozenset(event.id for event in events)))
    return made


def proof_of(turns: Sequence[SpooledTurn], run: TranscriptRun) -> bool | None:
    """Return whether everything that the hook gave in some turns stands in the run; None where it gave nothing."""
    given = [recall for turn in turns for recall in turn.recalls if recall.get("text")]
    return all(_is_in(run, recall) for recall in given) if given else None


def unsent_of(turns: Sequence[SpooledTurn], run: TranscriptRun) -> tuple[str, ...]:
    """Return the ids of the items that the hook gave in some turns, and that stand in the run nowhere."""
    given = [(item, _is_in(run, recall)) for turn in turns for recall in turn.recalls for item in _items(recall)]
    arrived = {item for item, arrived in given if arrived}
    return tuple(dict.fromkeys(item for item, _ in given if item not in arrived))


def _is_in(run: TranscriptRun, recall: Line) -> bool:
    return any(_mark(recall) in text for text in run.contexts)


def _items(recall: Line) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for item in recall.get("items") or () if isinstance(item, str)))


def _events_of(recall: Line, started: RunStarted) -> Iterator[Event]:
    """Yield the events of a recall; none where the line is not as a hook writes it."""
    text, position = str(recall.get("text") or ""), recall.get("position")
    at = _time(recall)
    with suppress(msgspec.MsgspecError, ValueError, TypeError):
        searches = [msgspec.json.decode(each, type=MemoriesRetrieved) for each in recall.get("retrievals") or ()]
        for number, search in enumerate(searches):
            id = derived_id(started.id.encode(), "recalled", recall["id"], number)
            yield replace(search, id=id, occurred_at=at, run=started.run, as_of=position)
        use = LayerUse(layer="L2", chars=len(text), budget=limits.CONTEXT_L2_CHARS)
        yield ContextBuilt(
            id=derived_id(started.id.encode(), "given", recall["id"]),
            occurred_at=at,
            run=started.run,
            chars=len(text),
            layers=(use,),
            items=_items(recall),
            texts=(text,),
        )


def _once(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines but those that two hosts, or two settings files, wrote of the same event."""
    met: dict[str, float] = {}
    for line in lines:
        key = line.get("key")
        told = line.get("kind") in ("prompt", *_ENDS) or (line.get("kind") == "tool" and line.get("call"))
        if isinstance(key, str) and told:
            at = seconds_of(line)
            if abs(at - met.get(key, -hook_limits.SPOOL_WAIT_S)) <= hook_limits.HOOK_TWICE_S:
                continue
            met[key] = at
        yield line


def _ending(prompt: Line, lines: Sequence[Line], followed: bool, now_s: float) -> Ending:
    # A stop while tasks go on in the background is none.
    ends: list[Ending] = [
        _ENDS[line["kind"]] for line in lines if line.get("kind") in _ENDS and not line.get("going_on")
    ]
    if ends:
        return ends[0]
    is_old = now_s - seconds_of(prompt) > hook_limits.SPOOL_WAIT_S
    return "interrupted" if followed or is_old else "open"


def _tool_use(line: Line) -> ToolUse:
    arguments: Any = line.get("arguments")
    ms = recorded_amount(line.get("ms"), 1000 * limits.EVENT_S)
    with suppress(RecursionError):
        arguments = holdable(decoded(arguments))
    call = ToolUse(
        id=text_or_none(line.get("call")) or str(line["id"]),
        name=str(line.get("tool") or "unknown"),
        arguments=arguments or None,
        at=_time(line),
        is_error=bool(line.get("failed")),
        duration_s=ms / 1000 if ms is not None else None,
        is_stopped=bool(line.get("interrupted")),
    )
    text = _said(str(line.get("result") or ""))
    call.answer(text, _time(line))
    failed = _EXIT.search(text)
    if failed is not None:
        call.exit_code = int(failed[1] or failed[2])
        call.is_error = call.is_error or bool(call.exit_code)
    elif line.get("host") == "claude-code" and call.command and not call.is_error and not call.is_stopped:
        # Claude Code tells of a command that failed by another event.
        call.exit_code = 0
    return call


def _said(result: str) -> str:
    """Return what a command printed, of the JSON that a host gives of it; any other result as it is."""
    fields = decoded(result)
    parts = [fields.get(key) for key in ("stdout", "stderr")] if isinstance(fields, dict) else []
    printed = [part for part in parts if isinstance(part, str)]
    return "\n".join(filter(None, printed)) if printed else result


def _mark(recall: Line) -> str:
    return f"[{MARKER} {recall.get('of')}]"


def _is_same(prompt: str, words: str) -> bool:
    from rbank_es.events.redaction import redact_all, redact_keys, secrets

    return bool(words.strip()) and redact_keys(redact_all(prompt, secrets())).strip().startswith(words.strip())


def _time(line: Line) -> str:
    return utc_text(datetime.fromtimestamp(seconds_of(line), UTC))


def _seconds(time: str | None) -> float:
    with suppress(ValueError, TypeError):
        return datetime.fromisoformat(str(time)).timestamp()
    return 0.0
