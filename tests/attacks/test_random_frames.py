"""Random and adversarial frames against the host: whatever a guest writes ends its session or is answered, in time.

A case is one step: some frames, each honest, broken at random, or made to do harm, in parts that end anywhere. The law:
the step gives an output or an error of its own kind, tools are called with plain data alone, and no process is left.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from rbank_es.sandbox import guest_protocol
from rbank_es.sandbox.guest_protocol import (
    CallFrame,
    ForgedFrame,
    Frame,
    NoiseFrame,
    ReplyFrame,
    decode_frame,
    decode_outcome,
)
from rbank_es.sandbox.step_outcome import LOSSES
from tests.sandbox import sandboxes
from tests.sandbox.scripted_guest import (
    CLOSE,
    MOST_BYTES,
    ScriptedProcess,
    call_frame,
    final,
    line,
    outcome,
    reply_frame,
    stand_in,
    take_session,
)

sandboxes.require_dspy()
from rbank_es.executors.agent_step import run_code  # noqa: E402
from rbank_es.executors.submission import Submission  # noqa: E402
from rbank_es.sandbox.interpreter import Sandbox  # noqa: E402

QUICK, THOROUGHLY, WITH_A_PROCESS = 1_000, 100_000, 3_000

AWKWARD: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, -(2**64), 10**40, 1e308, -0.0, "", "x", "\x00", "\u2028", "\ud800", "🌊", "tc_1_1", [],
    {}, [[[[[]]]]], {"a": {"a": {}}}, "[" * 2_000, '{"a":' * 500, "NaN", "9" * 5_000, "__proto__", "SUBMIT", "note",
    [0] * 50,
)  # fmt: skip
HARMLESS = (None, 1, "x", [1.5, {"b": None}], "\u2028🌊")
RAW = (
    b"NaN", b"-Infinity", b"1e999", b"9" * 5_000, b"[" * 3_000 + b"]" * 3_000, b'"\\ud800"', b'"\xff"',
    b'"\xed\xa0\x80"', b"{}", b"[]", b'""', b"null", b"-", b'{"a":1,"a":2}', b"\x00", b"\xef\xbb\xbf{}", b'"\\u0000"',
)  # fmt: skip


class Hostile:
    """Makes the cases of one seed, and counts their frames."""

    def __init__(self, seed: int, harm: float = 0.25) -> None:
        """`harm` is the share of frames that a session is not likely to outlive."""
        self.chance, self.harm = random.Random(seed), harm
        self.calls = 0

    def case(self, calls: int) -> bytes:
        """What a guest writes in one step, after so many calls in its session.

        It ends with the step's reply or with the pipe, so that nobody waits.
        """
        written = self.frames(calls)
        if self.chance.random() < 0.1:
            return written + CLOSE
        told = self.calls - calls + self.chance.choice((0, 0, 0, 1))
        return written + b"\n" + line(reply_frame(outcome(value="end", calls=told)))

    def frames(self, calls: int) -> bytes:
        """Some frames, after so many calls in their session."""
        self.calls = calls
        return b"".join(self.frame() for _ in range(self.chance.randint(1, 20)))[: MOST_BYTES // 2]

    def frame(self) -> bytes:
        """A frame."""
        made = self.chance.choice(self.makers)(self) if self.chance.random() < self.harm else self._outlived()
        return self._spoilt(made) if self.chance.random() < self.harm / 5 else made

    def _outlived(self) -> bytes:
        if self.chance.random() < 0.3:
            return self.chance.choice((b"\n", b"{\xff}\n", b"[]\n", b'{"a":\n', b"x" * 100 + b"\n"))
        self.calls += 1
        arguments = json.dumps({"a": self.chance.choice(HARMLESS)})
        return line(call_frame(self.calls, self.chance.choice(("note", "no_tool", "")), arguments))

    def _call(self) -> bytes:
        arguments = self.chance.choice((json.dumps({"a": self._awkward()}), self._text()))
        return line(call_frame(self.calls + self.chance.randint(0, 2), "note", arguments))

    def _reply(self) -> bytes:
        return line(reply_frame(outcome(calls=self.chance.randint(0, 2), value="x")))

    def _final(self) -> bytes:
        return final(self.chance.choice(('{"answer": "x"}', self._text(), json.dumps({"answer": self._awkward()}))))

    def _foreign(self) -> bytes:
        made = call_frame(1) | reply_frame(outcome())
        made |= {self.chance.choice([*made]): self._awkward() for _ in range(2)}
        return line(made)

    def _within(self) -> bytes:
        """A frame with an awkward value anywhere in it."""
        made = self.chance.choice((call_frame(1), reply_frame(outcome())))
        place = made[self.chance.choice([name for name, value in made.items() if isinstance(value, dict)])]
        place[self.chance.choice([*place])] = self._awkward()
        return line(made)

    def _reported(self) -> bytes:
        """An outcome with an awkward value in it."""
        told = json.loads(outcome(stdout="", value="", final="", message="", variable_types={}, variables_n=0))
        told[self.chance.choice([*told])] = self._awkward()
        return line(reply_frame(json.dumps(told)))

    def _bytes(self) -> bytes:
        return self.chance.randbytes(self.chance.randint(0, 60)) + b"\n"

    def _raw(self) -> bytes:
        """An honest frame, a value of which became bytes that no writer of JSON makes."""
        made = self.chance.choice((line(call_frame(1)), line(reply_frame("x"))))
        old = self.chance.choice((b'"tc_1_1"', b'"note"', b'"{}"', b'"x"', b'"2.0"', b'"@REQUEST@"'))
        return made.replace(old, self.chance.choice(RAW))

    makers: tuple[Callable[[Hostile], bytes], ...] = (
        _call, _reply, _final, _foreign, _within, _reported, _bytes, _raw,
    )  # fmt: skip

    def _awkward(self) -> Any:
        return self.chance.choice(AWKWARD)

    def _text(self) -> str:
        return self.chance.choice(RAW).decode(errors="replace")

    def _spoilt(self, frame: bytes) -> bytes:
        """The frame with a byte changed, cut off, twice, or without its end."""
        how, at = self.chance.randint(0, 3), self.chance.randrange(len(frame))
        if how == 0:
            return frame[:at] + self.chance.randbytes(1) + frame[at + 1 :]
        if how == 1:
            return frame[:at] + b"\n"
        return frame * 2 if how == 2 else frame[:-1]


def note(**arguments: Any) -> str:
    """A tool that takes plain data alone, as those that record their arguments do."""
    json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    return "noted"


def ended(sandbox: Any, code: str = "pass") -> str:
    """How a step ended that a guest may have disturbed."""
    _, ran = run_code(sandbox, code, 60, {})
    assert ran.fault is None or ran.fault in ("refused", "raised", "syntax", *LOSSES), ran
    # What is recorded of a step must be text, and a submission plain data.
    ran.output.encode()
    if ran.submission is not None:
        assert isinstance(ran.submission, Submission) and json.dumps(ran.submission.evidence, allow_nan=False)
    return ran.fault or "done"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The kinds of the frames that the host reads in a conversation."""
    kinds = Counter[str]()

    def decode(line: bytes) -> Frame:
        frame = decode_frame(line)
        kinds[type(frame).__name__] += 1
        return frame

    monkeypatch.setattr(guest_protocol, "decode_frame", decode)
    return kinds


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [QUICK, pytest.param(THOROUGHLY, marks=pytest.mark.slow)])
def test_no_frame_does_more_than_cost_its_step(
    monkeypatch: pytest.MonkeyPatch, decoded: Counter[str], count: int
) -> None:
    stand_in(monkeypatch)
    hostile, ends = Hostile(count), Counter[str]()
    sandbox = Sandbox(tools={"note": note}, take_session=take_session)
    sandbox.settings = sandboxes.SandboxSettings(restarts=count, step_code_s=5)
    # Of each session, two frames are those with which it gets ready.
    while decoded.total() - 2 * len(ScriptedProcess.made) < count:
        ScriptedProcess.script = chain([hostile.case(calls_of(sandbox))], repeat(b""))
        ends[ended(sandbox)] += 1
    sandbox.shutdown()
    print(f"{decoded.total():,} frames in {ends.total():,} steps: {dict(decoded)}, {dict(ends)}")
    assert not any(process.alive for process in ScriptedProcess.made)
    # A test whose cases all end alike would show little.
    assert len(decoded) == 4 and {"done", "forged", "broken", "died"} <= ends.keys()
    assert "timeout" not in ends, "no guest waits here, so the host must not either"


def calls_of(sandbox: Sandbox) -> int:
    """How many calls the session of the next step has made."""
    return sandbox.session.guest.calls if sandbox.session is not None else 0


@pytest.mark.parametrize("count", [QUICK, pytest.param(THOROUGHLY, marks=pytest.mark.slow)])
def test_a_line_is_decoded_whatever_its_bytes_are(count: int) -> None:
    hostile, kinds = Hostile(-count), Counter[type]()
    for _ in range(count):
        frame = decode_frame(hostile.frame().removesuffix(b"\n"))
        assert isinstance(frame, CallFrame | ReplyFrame | NoiseFrame | ForgedFrame)
        kinds[type(frame)] += 1
        if isinstance(frame, CallFrame):
            note(**frame.arguments)
        if isinstance(frame, ReplyFrame):
            decode_outcome(frame.value)
    assert len(kinds) == 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_process_costs_no_more_with_any_frames(tmp_path: Path, decoded: Counter[str]) -> None:
    """The same frames through a real process, whose steps write them at once."""
    # Starting a process takes most of the time, so most frames are of a kind that one outlives.
    hostile, ends = Hostile(7, harm=0.03), Counter[str]()
    sandbox = sandboxes.standing_in(tmp_path, tools={"note": note})
    sandbox.settings = sandboxes.SandboxSettings(restarts=WITH_A_PROCESS, step_code_s=10)
    while decoded.total() < WITH_A_PROCESS:
        before = calls_of(sandbox)
        written = hostile.frames(before) + b"\n"
        calls = hostile.calls - before
        # The id of the request is what no step knows; it reads the answers to its calls and tells their number.
        ends[ended(sandbox, STEP.format(written=written, calls=calls))] += 1
    sandbox.shutdown()
    print(f"{decoded.total():,} frames in {ends.total():,} steps: {dict(decoded)}, {dict(ends)}")
    assert {"done", "forged"} <= ends.keys()


STEP = "os.write(1, {written!r})\nfor _ in range({calls}): sys.stdin.readline()\noutcome['calls'] = {calls}"
