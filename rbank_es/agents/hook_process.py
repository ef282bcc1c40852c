"""The process of `rbank-es hook`: one event on standard input, at most one answer on standard output, exit code 0.

Nothing here may disturb the agent: not a missing bank, not a locked or damaged one, not a slow disk. What goes wrong is
noted in the spool, where `rbank-es doctor` finds it. The bank is only read. A lesson is printed only after the record
that it was given is in the spool, and not later than the time that a hook has.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from rbank_es.agents.hook_event import HookEvent, UnreadableEvent, answer_of, read_event
from rbank_es.agents.spool import Spool, spool_of
from rbank_es.agents.trusted_banks import HookBank, bank_for
from rbank_es.limits import hook_limits as limits

MARKER = "rbank-recall"
"""The word before the id of a recall in the text that was given: found in a transcript, it proves the delivery."""


def main(arguments: Sequence[str], *, time_s: float = limits.HOOK_TIME_S) -> None:
    """Answer one event and end the process with exit code 0, whatever happens."""
    gc.disable()  # a process that ends at once needs no collection: 3 ms
    clock = HookClock(time_s, lambda: os._exit(0))
    with suppress(BaseException):
        given = _given_bank(arguments)
        clock.note = lambda: _note(spool_of(_first_bank(given).place), _LATE)
        answer = respond(_standard_input(), given, clock)
        while answer:
            answer = answer[os.write(1, answer) :]
    # Without the interpreter's own end, which takes 10 ms and frees nothing of use.
    os._exit(0)


_LATE = "late: the time of a hook was over"


class HookClock:
    """The end of a hook's time: whoever claims it first, the answer or the clock, is the only one to act."""

    def __init__(self, time_s: float, end: Callable[[], None]) -> None:
        """Start the clock; at the end of the time, it notes that in the spool and calls `end`."""
        self.note: Callable[[], object] = lambda: None
        self._end, self._claim = end, threading.Lock()
        self._claimed = threading.Event()
        threading.Thread(target=self._watch, args=(time_s,), daemon=True).start()

    def claim(self) -> bool:
        """Return whether there is time left; then the caller acts, until `HOOK_END_S` behind the end of the time."""
        self._claimed.set()
        return self._claim.acquire(blocking=False)

    def _watch(self, time_s: float) -> None:
        ends = time.monotonic() + time_s + limits.HOOK_END_S
        if not self._claimed.wait(time_s) and self._claim.acquire(blocking=False):
            # In a thread of its own, because a spool that is locked would hold the agent up.
            noting = threading.Thread(target=self._note, daemon=True)
            noting.start()
            noting.join(limits.HOOK_END_S)
        else:
            time.sleep(max(0.0, ends - time.monotonic()))
        self._end()

    def _note(self) -> None:
        with suppress(BaseException):
            self.note()


def respond(data: bytes, given: str | None, clock: HookClock) -> bytes:
    """Return the answer to an event, empty for none; what was seen is in the spool of the bank then."""
    bank = _first_bank(given)
    try:
        event = read_event(data)
    except UnreadableEvent as error:
        _note(spool_of(bank.place), str(error))
        return b""
    if given is None:
        bank = bank_for(event.cwd or os.environ.get("CLAUDE_PROJECT_DIR"))
    event, spool = _redacted(event), spool_of(bank.place)
    if event.kind == "prompt":
        # From before the prompt is spooled: on a busy machine the time is over in between.
        clock.note = lambda: _note(spool, _LATE)
    key = _key(event)
    made = spool.append(_line(event, key))
    if bank.stranger is not None and event.kind == "prompt":
        _note(spool, f"{bank.stranger} is not trusted, and was passed over; `rbank-es install --project` trusts it")
    if event.kind != "prompt" or not event.prompt.strip() or not spool.first_of(key, made):
        return b""
    clock.note = lambda: _note(spool, _LATE, of=made)
    return _recalled(event, bank, spool, made, clock)


def _first_bank(given: str | None) -> HookBank:
    """Return the bank by what is known before the event is read."""
    return bank_for(None) if given is None else HookBank(given, "", given)


def _recalled(event: HookEvent, bank: HookBank, spool: Spool, made: str, clock: HookClock) -> bytes:
    # Imported here: all other events need neither SQLite nor the vocabulary of events, nor msgspec.
    from rbank_es.system.extras import import_msgspec

    import_msgspec()
    from rbank_es.agents.hook_recall import NothingRecalled, recall

    try:
        found = recall(bank.place, bank.id, event.prompt)
    except NothingRecalled as error:
        if clock.claim():
            _note(spool, str(error), of=made)
        return b""
    except BaseException as error:
        if clock.claim():
            _note(spool, f"unexpected {type(error).__name__}: {error}", of=made)
        return b""
    if not clock.claim():
        return b""
    text = f"{found.text}\n[{MARKER} {made}]" if found.text else ""
    # In the spool before it is printed: what isn't recorded isn't given.
    spool.append(
        {
            "kind": "recall",
            "of": made,
            "session": event.session,
            "position": found.position,
            "mark": found.mark,
            "items": found.items,
            "text": text,
            "retrievals": [each.decode() for each in found.retrievals],
        }
    )
    return answer_of(event.name, text) if text else b""


def _redacted(event: HookEvent) -> HookEvent:
    """Return an event without the secrets of the environment and without what looks like a key."""
    from rbank_es.events.redaction import redact_all, redact_keys, secrets

    facts = redact_all(event.facts, secrets())
    return event._replace(
        facts={name: redact_keys(value) if isinstance(value, str) else value for name, value in facts.items()}
    )


def _line(event: HookEvent, key: str) -> dict[str, Any]:
    about = {"kind": event.kind, "event": event.name, "host": event.host, "session": event.session, "turn": event.turn}
    return {**about, "cwd": event.cwd, "transcript": event.transcript, "key": key, **event.facts}


def _key(event: HookEvent) -> str:
    """Return what two reports of the same event have in common, and two events have not."""
    own = event.facts.get("call") or event.facts.get("prompt") or event.facts.get("agent") or ""
    parts = (event.session, event.kind, str(event.turn), str(own))
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _note(spool: Spool, why: str, of: str | None = None) -> None:
    with suppress(OSError):
        spool.append({"kind": "note", "of": of, "why": why[: limits.SPOOL_NAME_CHARS]})


def _given_bank(arguments: Sequence[str]) -> str | None:
    for number, argument in enumerate(arguments):
        if argument == "--bank" and number + 1 < len(arguments):
            return _place(arguments[number + 1])
        if argument.startswith("--bank="):
            return _place(argument[7:])
    return None


def _place(bank: str) -> str:
    if "/" in bank:
        return bank
    return f"{os.environ.get('RBANK_HOME') or 'logs'}/{bank}"


def _standard_input() -> bytes:
    blocks, left = list[bytes](), limits.HOOK_EVENT_BYTES + 1
    while left > 0 and (block := os.read(0, min(left, 1 << 20))):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks)


if __name__ == "__main__":
    main(sys.argv[1:])
