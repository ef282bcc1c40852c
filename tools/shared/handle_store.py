"""The store of payloads by key, because prompts hold handles instead of payloads.

A store over a bank keeps payloads in the bank: a payload's key is the id of the `tool_called` event that will hold it,
and it is durable once that event is appended. Such a key is valid in every later process, and in `rbank-es show`.
Without a bank, payloads are held in memory, and a key is valid as long as the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LimitExceeded, UnknownHandle
from rbank_es.events import Ref, ToolCalled
from rbank_es.events.codec import encodable
from rbank_es.limits import tool_limits
from rbank_es.log.run_reader import read_run

Handle = str | Mapping[str, Any] | Ref
"""A name of a payload: a key, an alias, the dict that a tool returned, or a `Ref`."""


class Store:
    """Payloads by key and by alias (`results_0`), for one run.

    `new_id` makes the keys of a store over a bank; without it, the log does. A rerun passes the recorded keys, because
    they are part of the recorded prompts.
    """

    def __init__(self, bank: Bank | None = None, run: str = "", new_id: Callable[[], str] | None = None) -> None:
        self._bank = bank
        self._new_id = new_id or (bank.log.new_id if bank is not None else None)
        self._run = run
        self._held: dict[str, str] = {}
        self._held_chars = 0
        self._refs: dict[str, Ref] = {}
        self._aliases: dict[str, str] = {}

    def put(self, content: str, dtype: str) -> Ref:
        """Keep a payload and return its handle; `dtype` is its kind: results, graph, mem, text.

        Raises `LimitExceeded` if the payload, or all that is held in memory, exceeds the limits.
        """
        content = encodable(content)
        # An escape takes up to six bytes: shorter texts need no counting.
        if len(content) > tool_limits.PAYLOAD_BYTES // 6:
            size_bytes = len(msgspec.json.encode(content))
            if size_bytes > tool_limits.PAYLOAD_BYTES:
                raise LimitExceeded("bytes of a payload", size_bytes, tool_limits.PAYLOAD_BYTES, "ask for less")
        alias = f"{dtype}_{len(self._aliases)}"
        key = alias if self._new_id is None else self._new_id()
        self._hold(key, content)
        return self._name(Ref(key, dtype, len(content), content[: limits.REF_PREVIEW_CHARS]), alias)

    def remember(self, calls: Iterable[ToolCalled]) -> None:
        """Take up the aliases of calls that an earlier process of this run made; new ones continue their numbers."""
        self._aliases.update((call.alias, call.id) for call in calls if call.alias)

    def settle(self, ref: Ref) -> None:
        """Release memory that a payload takes, if memory is scarce: its event was appended and can be read instead."""
        # The latest payloads are the ones that an agent pages through, so they stay in memory.
        if self._bank is not None and self._held_chars > tool_limits.PAYLOADS_KEPT_CHARS:
            self._held_chars -= len(self._held.pop(ref.key, ""))

    def drop(self, ref: Ref) -> None:
        """Remove a payload whose event could not be appended: its handle is void."""
        self._held_chars -= len(self._held.pop(ref.key, ""))
        self._refs.pop(ref.key, None)

    def resolve(self, handle: Handle) -> Ref:
        """Return the `Ref` of a handle. Raises `UnknownHandle`."""
        key = _key_of(handle)
        key = self._aliases.get(key, key)
        known = self._refs.get(key)
        if known is not None:
            return known
        found = self._in_bank(key)
        if found is None:
            raise UnknownHandle(key)
        return found

    def alias_of(self, ref: Ref) -> str:
        """Return the short name within the run; an empty text if it has none."""
        return next((alias for alias, key in self._aliases.items() if key == ref.key), "")

    @property
    def last_alias(self) -> str | None:
        """The alias of the latest payload; None before the first."""
        return next(reversed(self._aliases), None)

    def get(self, handle: Handle) -> str:
        """Return the whole payload. Raises `UnknownHandle`, also if its text was erased."""
        ref = self.resolve(handle)
        if ref.key in self._held:
            return self._held[ref.key]
        text = self._read(ref.key)
        if text is None:
            raise UnknownHandle(ref.key, "its text was erased")
        return text

    def peek(self, handle: Handle, n: int = tool_limits.PEEK_CHARS) -> str:
        """Return the first `n` characters. Raises `UnknownHandle`, `BadInput`."""
        return self.slice(handle, 0, n)

    def slice(self, handle: Handle, start: int, end: int) -> str:
        """Return the characters from `start` (from 0) to `end`, not included. Raises `UnknownHandle`, `BadInput`."""
        if start < 0 or end < 0:
            raise BadInput(f"a slice from {start} to {end}: offsets count from 0 and can't be negative")
        return self.get(handle)[start:end]

    def stats(self, handle: Handle) -> dict[str, Any]:
        """Return kind, length in characters, number of lines, and SHA-256 of the UTF-8 text. Raises `UnknownHandle`."""
        ref = self.resolve(handle)
        text = self.get(ref)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        lines = text.count("\n") + (not text.endswith("\n") if text else 0)
        return {"key": ref.key, "dtype": ref.dtype, "length": len(text), "lines": lines, "sha256": digest}

    def origin(self, handle: Handle) -> ToolCalled | None:
        """Return the call that made a payload, None if the bank has none. Raises `UnknownHandle`."""
        return self._event(self.resolve(handle).key)

    def _hold(self, key: str, content: str) -> None:
        # With a bank, `settle` releases memory instead.
        if self._bank is None and self._held_chars + len(content) > tool_limits.STORE_CHARS:
            raise LimitExceeded(
                "characters held in memory", self._held_chars + len(content), tool_limits.STORE_CHARS, "use a bank"
            )
        self._held[key] = content
        self._held_chars += len(content)

    def _name(self, ref: Ref, alias: str) -> Ref:
        self._refs[ref.key] = ref
        self._aliases[alias] = ref.key
        return ref

    def _in_bank(self, key: str) -> Ref | None:
        """Return a payload of an earlier process by its key, or by its alias in this run."""
        event = self._event(key) or self._by_alias(key)
        if event is None or event.result is None:
            return None
        size = event.result.sz if isinstance(event.result, Ref) else len(self._read(event.id) or "")
        text = event.result.prev if isinstance(event.result, Ref) else (self._read(event.id) or "")
        ref = Ref(event.id, event.dtype or "text", size, text[: limits.REF_PREVIEW_CHARS])
        return self._name(ref, event.alias) if event.alias and event.run == self._run else ref

    def _event(self, key: str) -> ToolCalled | None:
        seq = self._bank.log.seq_of_id(key) if self._bank is not None and len(key) == _ID_CHARS else None
        if self._bank is None or seq is None:
            return None
        found = next(iter(self._bank.log.read(after=seq - 1, upto=seq)), None)
        return found if isinstance(found, ToolCalled) else None

    def _by_alias(self, alias: str) -> ToolCalled | None:
        if self._bank is None or not self._run:
            return None
        calls = read_run(self._bank.log, self._run, types={"tool_called"}).calls
        # Aliases count up within a run, so the last call with this one made the payload.
        named = [call for call in calls if call.alias == alias]
        return named[-1] if named else None

    def _read(self, key: str) -> str | None:
        event = self._event(key)
        return self._bank.text(event.result) if self._bank is not None and event is not None else None


# The length of a UUID as text: no other key can be that of an event.
_ID_CHARS = 36


def _key_of(handle: Handle) -> str:
    if isinstance(handle, Ref):
        return handle.key
    key = handle.get("key", handle.get("alias")) if isinstance(handle, Mapping) else handle
    if not isinstance(key, str) or not key:
        raise UnknownHandle(str(key)[: limits.REF_PREVIEW_CHARS], "that is no handle")
    return key[: limits.NAME_CHARS]
