"""The typed value of a run that a transcript tells of: one turn of a user with what followed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

import msgspec

from rbank_es.bank.recorded_values import recorded_count
from rbank_es.limits.transcript_limits import TRANSCRIPT_CONTEXTS, TRANSCRIPT_END_CHARS, TRANSCRIPT_TEXT_CHARS

Ending = Literal["done", "interrupted", "failed", "open"]
"""How a turn ended: by itself, by its user, by an error that wasn't the agent's; `open`: the file doesn't say."""

_COMMITTED = re.compile(r"^\[[^\]\n]{1,200} ([0-9a-f]{7,40})\] ", re.MULTILINE)
_LAST_WORD_CHARS = 1_000
_COMMITS = re.compile(r"\bgit\b[^|;&\n]*\b(?:commit|revert|cherry-pick|merge|rebase)\b")


class ToolUse(msgspec.Struct, kw_only=True):
    """One call of a tool.

    `result` is the beginning of its answer, `end` its last characters if it is longer, `chars` the length of the whole.
    `answered`: the transcript has its result. `exit_code`: of a command, where known. `is_stopped`: it was interrupted,
    or goes on in the background, so its result decides nothing. `agent`: the id of the sub-agent that it started.
    """

    id: str
    name: str
    arguments: Any = None
    at: str | None = None
    ended: str | None = None
    answered: bool = False
    result: str = ""
    end: str = ""
    chars: int = 0
    is_error: bool = False
    exit_code: int | None = None
    duration_s: float | None = None
    is_stopped: bool = False
    agent: str | None = None

    @property
    def command(self) -> str:
        """The command line that it ran; empty for a tool of another kind."""
        given = self.arguments
        if not isinstance(given, dict):
            return ""
        command = next((given[key] for key in ("command", "cmd", "script") if given.get(key)), "")
        if isinstance(command, list):
            parts = [part for part in command if isinstance(part, str)]
            command = (
                parts[-1] if len(parts) > 1 and parts[-2].startswith("-") and "c" in parts[-2] else " ".join(parts)
            )
        return command if isinstance(command, str) else ""

    @property
    def commits(self) -> tuple[str, ...]:
        """The hashes of the commits that it made, as git named them."""
        # Also at the end: a hook of the repository may print much before.
        told = f"{self.result}\n{self.end}"
        return tuple(_COMMITTED.findall(told)) if _COMMITS.search(self.command) else ()

    def answer(self, text: str, at: str | None = None) -> None:
        """Note the result."""
        self.answered, self.ended, self.chars = True, at, len(text)
        self.result = clipped(text)
        # Only of a clipped one: a turn may have thousands of results.
        self.end = text[-TRANSCRIPT_END_CHARS:] if len(text) > TRANSCRIPT_TEXT_CHARS else ""


class ModelMessage(msgspec.Struct, kw_only=True):
    """One message of a model: its words, and the tokens that it took, once for the whole message.

    `error` says why there is none, where the call failed.
    """

    id: str
    model: str | None = None
    at: str | None = None
    text: str = ""
    reasoning: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None
    duration_s: float | None = None
    error: str | None = None
    is_last: bool = False

    def use(self, used: Mapping[str, Any], tokens_in: str, tokens_out: str, cached: str) -> None:
        """Note the tokens that it took, under the names that its transcript has for them."""
        self.tokens_in, self.tokens_out = recorded_count(used.get(tokens_in)), recorded_count(used.get(tokens_out))
        self.tokens_cached = recorded_count(used.get(cached))


class TrialReward(msgspec.Struct, frozen=True, kw_only=True):
    """What the tests of a trial gave: a reward, else why there is none."""

    reward: float | None = None
    task: str | None = None
    trial: str | None = None
    error: str | None = None


class TranscriptRun(msgspec.Struct, kw_only=True):
    """One run of a coding agent, as a reader of its transcript gathers it.

    `key` is its identity, the same in every copy: a fork, a resumed session, a compacted one. `name` is how its name
    begins; by default with its host and day. `prompts` are the user's words: several where he steered a turn. `acts`
    are its `calls` and `messages` of models, in order. `contexts` are the texts that hooks or the host gave it, as the
    transcript proves. `agent` is the id of the sub-agent whose run it is, `parent` the session that started it.
    `copied`: it stands here as a copy, which may be cut.
    """

    form: str
    host: str
    key: tuple[str, ...]
    session: str
    line: int
    prompts: list[str]
    name: str = ""
    began: str | None = None
    ended: str | None = None
    ending: Ending = "open"
    error: str = ""
    release: str | None = None
    cwd: str | None = None
    branch: str | None = None
    commit: str | None = None
    model: str | None = None
    agent: str | None = None
    parent: str | None = None
    acts: list[ToolUse | ModelMessage] = msgspec.field(default_factory=list)
    calls: list[ToolUse] = msgspec.field(default_factory=list)
    messages: list[ModelMessage] = msgspec.field(default_factory=list)
    contexts: list[str] = msgspec.field(default_factory=list)
    copied: bool = False
    trial: TrialReward | None = None
    last_words: str = ""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    by_id: dict[str, ToolUse | ModelMessage] = msgspec.field(default_factory=dict)

    @property
    def answer(self) -> str:
        """The last words of the agent."""
        said = next((each.text for each in reversed(self.acts) if isinstance(each, ModelMessage) and each.text), "")
        return self.last_words or said

    @property
    def commits(self) -> list[str]:
        """The hashes of the commits that it made, in order, each once."""
        return list(dict.fromkeys(commit for call in self.calls for commit in call.commits))

    def add(self, act: ToolUse | ModelMessage) -> None:
        """Add an act, which is found again by its id."""
        self.acts.append(act)
        if isinstance(act, ToolUse):
            self.calls.append(act)
        else:
            self.messages.append(act)
        self.by_id[act.id] = act

    def call(self, id: str) -> ToolUse | None:
        """Return the call with this id."""
        found = self.by_id.get(id)
        return found if isinstance(found, ToolUse) else None

    def message(self, id: str, model: str | None, at: str | None) -> ModelMessage:
        """Return the message with this id, a new one if there is none."""
        found = self.by_id.get(id)
        if isinstance(found, ModelMessage):
            return found
        made = ModelMessage(id=id, model=model, at=at)
        self.add(made)
        self.model = self.model or model
        return made

    def give(self, text: str) -> None:
        """Note a text that the run was given."""
        if text and len(self.contexts) < TRANSCRIPT_CONTEXTS and text not in self.contexts:
            self.contexts.append(clipped(text))

    def close(self, *, goes_on: bool) -> None:
        """Settle how it ended. `goes_on`: the session has a later turn, so it did, unless it is a copy that was cut."""
        if self.ending != "open":
            return
        last = self.acts[-1] if self.acts else None
        if self.error:
            self.ending = "failed"
        elif (isinstance(last, ModelMessage) and last.is_last) or (goes_on and not self.copied and self.acts):
            self.ending = "done"


def clipped(text: str) -> str:
    """Return the beginning of a text that may be long."""
    if len(text) <= TRANSCRIPT_TEXT_CHARS:
        return text
    begun = text[:TRANSCRIPT_TEXT_CHARS]
    # Between words: half a key would escape redaction.
    return begun if begun[-1].isspace() else begun[: -len(begun[-_LAST_WORD_CHARS:].split()[-1])]


def shortened(value: Any, depth: int = 4) -> Any:
    """Return arguments with the beginnings of their long texts: a file that was written whole may have megabytes."""
    if isinstance(value, str):
        return clipped(value)
    if isinstance(value, dict) and depth:
        return {key: shortened(inner, depth - 1) for key, inner in value.items()}
    return [shortened(inner, depth - 1) for inner in value] if isinstance(value, list) and depth else value


def text_in(content: Any) -> str:
    """Return the text of a content: a string, or a list of parts of which those with text count."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    parts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "\n".join(part for part in parts if isinstance(part, str))


def text_or_none(value: Any) -> str | None:
    """Return a value that is a text with something in it; None for any other."""
    return value if isinstance(value, str) and value else None


def decoded(given: Any) -> Any:
    """Return the value of a JSON text; anything else as it is."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            return json.loads(given)
    return given


def seconds_between(start: str, end: str) -> float:
    """Return the seconds between two ISO times; 0 where one is none."""
    with suppress(ValueError, TypeError):
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return 0.0
