"""A hostile guest writes whatever it likes to its pipe: that costs its step, at most its run, and nobody else's.

Most attacks are made by a guest without a process, which is quick; they go through `Sandbox.execute`, as the steps of
every executor that runs code do. Those that need a real process, or the real sandbox, say so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.limits import sandbox_limits
from tests.sandbox import sandboxes
from tests.sandbox.scripted_guest import (
    CLOSE,
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
from rbank_es.sandbox.interpreter import Sandbox, SessionLost  # noqa: E402

DEEP = 100_000
PAST_DEPTH = sandbox_limits.SANDBOX_VALUE_DEPTH + 5


@pytest.fixture
def seen() -> list[Any]:
    """What a tool was called with."""
    return []


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch, seen: list[Any]) -> Iterator[Sandbox]:
    stand_in(monkeypatch)

    def note(**arguments: Any) -> str:
        seen.append(arguments)
        return "noted"

    made = Sandbox(tools={"note": note}, take_session=take_session)
    made.settings = sandboxes.SandboxSettings(step_code_s=0.3)
    yield made
    made.shutdown()
    assert not any(process.alive for process in ScriptedProcess.made)


def lost(sandbox: Sandbox, *parts: bytes) -> str:
    """How these frames cost a step its session; the next step is as good as any."""
    ScriptedProcess.script = iter([*parts, line(reply_frame(outcome(value="on")))])
    with pytest.raises(SessionLost) as caught:
        sandbox.execute("pass")
    assert sandbox.report is not None and sandbox.report.step.loss == caught.value.loss
    # With all its time: on a busy machine that of some attacks is over before an honest answer is read.
    sandbox.settings = sandboxes.SandboxSettings()
    ScriptedProcess.script = iter([line(reply_frame(outcome(value="on")))])
    assert sandbox.execute("pass") == "on"
    return caught.value.loss


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


FINALS = {
    "no JSON": "forged",
    "nothing": "",
    "half of an object": '{"answer": ',
    "nesting beyond any parser": nested(20_000),
    "nesting that parsers accept and walkers don't": '{"a":' + nested(900) + "}",
    "nesting a little too deep": '{"a":' + nested(PAST_DEPTH) + "}",
    "not a number": '{"answer": NaN}',
    "infinity": '{"answer": -Infinity}',
    "a number that becomes infinite": '{"answer": 1e999}',
    "a number of ten thousand digits": '{"answer": ' + "9" * 10_000 + "}",
    "half of a character": '{"answer": "\\ud800"}',
    "half of a character as a name": '{"\\udfff": 1}',
    "a list": '["answer"]',
    "a text": '"answer"',
    "null": "null",
    "two objects": "{}{}",
    "a byte order mark": "\ufeff{}",
}


@pytest.mark.parametrize("what", FINALS)
def test_a_forged_submission_costs_the_step(sandbox: Sandbox, what: str) -> None:
    assert lost(sandbox, final(FINALS[what])) == "broken"


def test_a_submission_over_its_limit_costs_the_step(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    monkeypatch.setattr(sandbox_limits, "SANDBOX_SUBMIT_CHARS", 100)
    assert lost(sandbox, final(json.dumps({"answer": "x" * 100}))) == "broken"


REPLIES: dict[str, tuple[Any, str]] = {
    "no outcome": (None, "broken"),
    "a number": (7, "broken"),
    "an object": ({}, "broken"),
    "another kind": ('{"kind": "end", "calls": 0}', "broken"),
    "no count of calls": ('{"kind": "output"}', "broken"),
    "a count below zero": (outcome(stdout_chars=-1), "broken"),
    "a count beyond all bounds": (outcome(variables_chars=10**30), "broken"),
    "a count that is no number": (outcome(value_chars="1"), "broken"),
    "types of variables that are no counts": (outcome(variable_types={"int": "many"}), "broken"),
    "a text that is a number": (outcome(stdout=5), "broken"),
    "nesting": (nested(20_000), "broken"),
    "more calls than were made": (outcome(calls=3), "forged"),
    "fewer calls than were made": (outcome(calls=-1), "forged"),
    "so many calls": (outcome(calls=10**30), "forged"),
    "no JSON": ("no json", "broken"),
    "a list": ("[]", "broken"),
    "a submission that is no text": (outcome(kind="final", final=3), "broken"),
    "no number of calls": (outcome(calls=None), "broken"),
}


@pytest.mark.parametrize("what", REPLIES)
def test_a_forged_outcome_costs_the_step(sandbox: Sandbox, what: str) -> None:
    value, code = REPLIES[what]
    assert lost(sandbox, line(reply_frame(value))) == code


DEEP_ARGUMENTS = json.dumps({"a": "@"}).replace('"@"', nested(900))
CALLS: dict[str, bytes] = {
    "arguments nested beyond any parser": line(call_frame(1, packed=nested(20_000))),
    "arguments nested too deep for tools": line(call_frame(1, packed=DEEP_ARGUMENTS)),
    "arguments that aren't a number": line(call_frame(1, packed='{"a": NaN}')),
    "arguments with an infinite number": line(call_frame(1, packed='{"a": [1e999]}')),
    "arguments with a number of ten thousand digits": line(call_frame(1, packed='{"a": ' + "9" * 10_000 + "}")),
    "arguments with half of a character": line(call_frame(1, packed='{"a": "\\ud83d"}')),
    "a number from the future": line(call_frame(2)),
    "a number from the past": line(call_frame(0)),
    "a number of another alphabet": line(call_frame(1, id="tc_1_\u0661")),
    "a number without end": line(call_frame(1, id="tc_1_" + "9" * 5_000)),
    "a list for an id": line(call_frame(1, id=["tc_1_1"])),
    "nesting for an id": line(call_frame(1)).replace(b'"tc_1_1"', b"[" * 20_000 + b"]" * 20_000),
    "a tool that is no text": line(call_frame(1, tool=["note"])),  # type: ignore[arg-type]
    "the answer to another request": line(reply_frame(outcome(), id="0" * 32)),
    "the answer to a request without an id": line(reply_frame(outcome(), id=None)),
    "the answer to a request with nesting for an id": line({"result": {"output": outcome()}, "id": [[[]]]}),
    "an error with nesting": line(reply_frame(0)).replace(b'"result"', b'"error"').replace(
        b'{"output": 0}', nested(20_000).encode()
    ),
    "a request of the host's own form": line({"jsonrpc": "2.0", "method": "execute", "params": {}, "id": "1"}),
    "a frame and the end": line(call_frame(7)) + CLOSE,
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_a_forged_frame_costs_the_step_and_reaches_no_tool(sandbox: Sandbox, seen: list[Any], what: str) -> None:
    assert lost(sandbox, CALLS[what]) in ("forged", "broken", "timeout")
    assert not seen


FORGED: dict[str, Any] = {
    "a call without arguments": call_frame(1, params={"name": "note"}),
    "a call with arguments of dspy's form": call_frame(1, params={"name": "note", "kwargs": {"text": "x"}}),
    "a call with broken arguments": call_frame(1, packed="{"),
    "a call with a list for arguments": call_frame(1, packed="[]"),
    "a call with a list for parameters": call_frame(1, params=[1]),
    "a call of a tool without a name": call_frame(1, tool=None),  # type: ignore[arg-type]
    "a call without an id": {"method": "tool_call", "params": {}},
    "a call whose id is no text": call_frame(1, id=1),
    "a result": {"jsonrpc": "2.0", "id": "x", "result": {"output": "1"}},
    "an error": {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid Request"}},
    "any object": {"a": 1},
}


@pytest.mark.parametrize("what", FORGED)
def test_a_message_that_no_tool_made_is_told_as_forged(sandbox: Sandbox, seen: list[Any], what: str) -> None:
    assert lost(sandbox, line(FORGED[what])) == "forged" and not seen


PASSED_OVER: dict[str, bytes] = {
    "text": b"x",
    "nothing": b"",
    "half an object": b'{"a":',
    "a list": b"[]",
    "nesting beyond any parser": b'{"a":' * 10_000,
    "a large number": b'{"a":' + b"9" * 10_000,
    "no UTF-8": b"{\xff}",
    "an error that nobody awaited": b'{"jsonrpc":"2.0","method":"unhandled_error","params":{"message":"x"}}',
}


@pytest.mark.parametrize("what", PASSED_OVER)
def test_a_line_that_is_no_message_is_passed_over(sandbox: Sandbox, what: str) -> None:
    ScriptedProcess.script = iter([PASSED_OVER[what] + b"\n" + line(reply_frame(outcome(value="on")))])
    assert sandbox.execute("pass") == "on"


NOISY: dict[str, bytes] = {
    "no UTF-8": b"{\xff\xfe\x00}\n",
    "no UTF-8 in a text": b'{"a": "\xed\xa0\x80"}\n',
    "zero bytes": b"\x00" * 1_000 + b"\n",
    "half of a frame": line(call_frame(1))[:40] + b"\n",
    "nothing many times": b"\n" * 500,
    "a carriage return": b"\r\n",
}


@pytest.mark.parametrize("what", NOISY)
def test_a_line_that_is_no_frame_is_ignored_or_costs_the_step(sandbox: Sandbox, what: str) -> None:
    ScriptedProcess.script = iter([NOISY[what] + line(reply_frame(outcome(value="on")))])
    try:
        assert sandbox.execute("pass") == "on"
    except SessionLost as error:
        assert error.loss == "forged"


def test_an_answer_given_twice_costs_the_next_step(sandbox: Sandbox) -> None:
    once = line(reply_frame(outcome(value="on")))
    ScriptedProcess.script = iter([once + once])
    assert sandbox.execute("pass") == "on"
    assert lost(sandbox, once) == "forged"


def test_a_frame_that_ends_amid_a_line_costs_the_step(sandbox: Sandbox) -> None:
    assert lost(sandbox, line(reply_frame(outcome()))[:-10] + CLOSE) == "died"


def test_a_frame_that_never_ends_costs_the_step(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    monkeypatch.setattr(sandbox_limits, "SANDBOX_MESSAGE_BYTES", 10_000)
    assert lost(sandbox, b"{" * 25_000) == "too_long"


def test_an_open_pipe_with_nothing_in_it_costs_the_step_at_its_time_limit(sandbox: Sandbox) -> None:
    sandbox.settings = sandboxes.SandboxSettings(step_code_s=0.05)
    assert lost(sandbox, b"") == "timeout"


def test_calls_without_end_cost_the_step_even_if_tools_are_free(
    monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, seen: list[Any]
) -> None:
    monkeypatch.setattr(sandbox_limits, "SANDBOX_CALLS", 50)
    assert lost(sandbox, *(line(call_frame(number)) for number in range(1, 99))) == "flood"
    assert len(seen) == 50


def test_arguments_without_end_cost_the_step(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    monkeypatch.setattr(sandbox_limits, "SANDBOX_CALLS_CHARS", 100_000)
    large = json.dumps({"a": "x" * 20_000})
    assert lost(sandbox, *(line(call_frame(number, packed=large)) for number in range(1, 99))) == "flood"


def test_lines_that_are_no_messages_are_passed_over_up_to_a_number_and_cost_the_step_beyond(
    monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    monkeypatch.setattr(sandbox_limits, "SANDBOX_NOISE_LINES", 50)
    reply = line(reply_frame(outcome(value="heard")))
    ScriptedProcess.script = iter([b"noise\n" * 50 + reply])
    assert sandbox.execute("pass") == "heard"
    assert lost(sandbox, b"noise\n" * 51 + reply) == "flood"


def test_calls_written_ahead_of_their_answers_do_not_outlast_the_step(sandbox: Sandbox, seen: list[Any]) -> None:
    """They are there before the host looks, so that it never has to wait, which is when a time limit is easily seen."""
    sandbox.settings = sandboxes.SandboxSettings(step_code_s=30, step_wall_s=0.2)
    sandbox.tools["note"] = lambda: time.sleep(0.05)
    began = time.monotonic()
    ahead = b"".join(line(call_frame(number)) for number in range(1, 200))
    assert lost(sandbox, ahead, *[b""] * 200) == "wall_timeout"
    assert time.monotonic() - began < 5  # all calls would take 10


# -------------------------------------------------------------------- with a process


def timed(sandbox: Sandbox, code: str, **times: float) -> tuple[str, float]:
    """How a step loses its session, and after how many seconds."""
    sandbox.start()
    sandbox.settings = sandboxes.SandboxSettings(restarts=sandboxes.MANY, **times)
    began = time.monotonic()
    with pytest.raises(SessionLost) as caught:
        sandbox.execute(code)
    return caught.value.loss, time.monotonic() - began


ENDLESS = {
    "standard error": "while True: os.write(2, b'x' * 4096)",
    "the rest of a line": "while True: os.write(1, b'x'); import time; time.sleep(0.001)",
}
CLOSED = "os.close(1)\nwhile True: os.write(2, b'x' * 4096)"


@pytest.mark.slow
@pytest.mark.parametrize("what", [*ENDLESS, pytest.param(CLOSED, id="with a closed pipe")])
def test_output_without_end_ends_with_the_step(tmp_path: Path, what: str) -> None:
    sandbox = sandboxes.standing_in(tmp_path)
    code, took_s = timed(sandbox, ENDLESS.get(what, what), step_code_s=0.3)
    assert code in ("timeout", "died") and took_s < sandbox_limits.SANDBOX_EXIT_S + 30  # it is without end
    sandbox.shutdown()
