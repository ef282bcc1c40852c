"""Calls of tools: what the agent gets, what is recorded, and what becomes of every kind of failure."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LogUnavailable, QueryFailed, QueryRefused
from rbank_es.events import NoteLogged, RunStarted
from rbank_es.limits import tool_limits
from rbank_es.tools.shared.handle_store import Store
from rbank_es.tools.shared.tool_family import Reply, ToolError, ToolPolicy
from rbank_es.tools.shared.toolbox import build_tools
from tests.tools.tool_sessions import RUN, calls, session_for, toolbox_for


def raising(error: BaseException) -> Any:
    def broken(text: str = "") -> Reply:
        """Fail."""
        raise error

    return broken


def test_numbers_that_came_through_a_sandbox_are_taken(bank: Bank) -> None:
    toolbox = toolbox_for(session_for(bank))
    toolbox.call("put", {"content": "abcdef"})
    assert toolbox.call("ctx_slice", {"ref": "text_0", "start": 1.0, "end": "3"})["text"] == "bc"
    assert toolbox.call("ctx_peek", {"ref": "text_0", "n": None})["text"] == "abcdef"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ToolError("no_rows", "there are none", "ask otherwise"), "no_rows", "there are none"),
        (QueryRefused("syntax", "a brace is missing", "add it", line=2, column=5), "syntax", "line 2, column 5"),
        (QueryFailed("timeout", "took too long", "ask for less"), "timeout", "took too long"),
        (LogUnavailable("/var/lib/secret/bank", "read", OSError(5, "I/O error")), "log_unavailable", "I/O error"),
        (ValueError("/etc/passwd is odd"), "tool_failed", "ValueError"),
        (RecursionError("deep"), "tool_failed", "RecursionError"),
        (MemoryError(), "tool_failed", "MemoryError"),
    ],
)
def test_no_error_is_raised_and_none_shows_a_path_or_a_traceback(
    bank: Bank, error: Exception, code: str, words: str
) -> None:
    toolbox = toolbox_for(session_for(bank), {"broken": raising(error)})
    result = toolbox.call("broken")
    assert (result["ok"], result["error"]["code"]) == (False, code)
    assert words in result["error"]["message"] and result["error"]["hint"]
    shown = json.dumps(result)
    assert "/etc" not in shown and "/var" not in shown and "Traceback" not in shown
    assert calls(bank)[0].error_code == code
    assert toolbox.call("put", {"content": "still here"})["ok"]


def test_an_interrupt_is_no_error_of_a_tool(bank: Bank) -> None:
    with pytest.raises(KeyboardInterrupt):
        toolbox_for(session_for(bank), {"broken": raising(KeyboardInterrupt())}).call("broken")


def test_an_answer_whose_event_cannot_be_written_is_withheld(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    toolbox = toolbox_for(session_for(bank))

    def full(*_: Any, **__: Any) -> Any:
        raise LogUnavailable(bank.place, "append to", OSError(28, "No space left on device"))

    with monkeypatch.context() as patch:
        patch.setattr(bank, "append", full)
        result = toolbox.call("put", {"content": "unrecorded"})
    assert result["error"]["code"] == "not_recorded" and "No space left" in result["error"]["message"]
    assert str(bank.place) not in json.dumps(result) and "unrecorded" not in json.dumps(result)
    assert len(toolbox.session.unrecorded) == 1
    assert toolbox.call("ctx_stats", {"ref": "text_0"})["error"]["code"] == "unknown_handle"
    assert toolbox.call("put", {"content": "recorded"})["ok"]


def test_a_tool_gives_up_when_others_are_always_faster(bank: Bank) -> None:
    tries: list[int] = []

    def unlucky() -> Reply:
        """Read the bank, too slowly."""
        position = bank.position
        tries.append(position)
        bank.append(NoteLogged(note="{}"))
        return Reply({}, position=position)

    result = toolbox_for(session_for(bank), {"unlucky": unlucky}).call("unlucky")
    assert result["error"]["code"] == "not_recorded" and "faster" in result["error"]["message"]
    assert len(tries) == 20


@pytest.mark.slow
def test_the_naive_mode_returns_as_much_beside_a_payload_as_a_payload_can_hold(bank: Bank) -> None:
    """What a tool returns beyond that is truncated, and says so."""

    def long(chars: int) -> Reply:
        """Return a payload, and a text beside it."""
        return Reply({"beside": "y" * chars}, "x" * 16_000_000, "text")

    toolbox = toolbox_for(session_for(bank, ToolPolicy(payloads="naive")), {"long": long})
    whole = toolbox.call("long", {"chars": 4_000_000})
    assert (len(whole["naive_payload"]), len(whole["beside"])) == (16_000_000, 4_000_000) and "truncated" not in whole
    cut = toolbox.call("long", {"chars": 20_000_000})
    assert len(cut["naive_payload"]) == 16_000_000 and cut["truncated"] is True
    assert 16_000_000 < len(cut["beside"]) < 20_000_000


def test_calls_from_many_threads_are_all_recorded_each_with_its_own_alias(bank: Bank) -> None:
    toolbox = toolbox_for(session_for(bank))
    threads = [threading.Thread(target=toolbox.call, args=("put", {"content": str(n)})) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorded = calls(bank)
    assert {call.alias for call in recorded} == {f"text_{n}" for n in range(20)}
    assert {call.call for call in recorded} == {f"call-{n}" for n in range(1, 21)}


def test_a_payload_is_durable_although_the_process_is_killed_right_after_the_answer(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from rbank_es.bank import Bank
from tests.tools.tool_sessions import session_for, toolbox_for
toolbox = toolbox_for(session_for(Bank.create({str(tmp_path / "bank")!r})))
print(toolbox.call("put", {{"content": "kept " * 1000}})["key"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -9, done.stderr
    with Bank.open(tmp_path / "bank") as bank:
        session = session_for(bank)
        assert session.store.get(done.stdout.strip()) == "kept " * 1000


@pytest.mark.parametrize("since", [1, tool_limits.LOOK_BACK_EVENTS + 1])
def test_a_run_that_is_taken_up_again_goes_on_counting(bank: Bank, since: int) -> None:
    """Aliases and ids of calls are those of the run, not of the process, however much was recorded since it began."""
    bank.append(RunStarted(run=RUN, task="Look"))
    bank.append([NoteLogged(note=f"note {number}") for number in range(since)])
    first = build_tools(bank, run=RUN)
    handle = first.retrieve_memories("anything")
    again = build_tools(bank, run=RUN)
    assert again.session.store.get("mem_0") == first.session.store.get(handle) == "[]"
    again.retrieve_memories("anything")
    assert [(call.call, call.alias) for call in calls(bank)] == [("call-1", "mem_0"), ("call-2", "mem_1")]
    assert build_tools(bank, run="run-2").session.calls == 0


def test_a_graph_behind_a_handle_is_kept_with_the_call(bank: Bank, tmp_path: Path) -> None:
    path = tmp_path / "two.ttl"
    path.write_text("@prefix e: <http://e.example/> . e:a e:p e:b , e:c .", encoding="utf-8")
    ref = build_tools(bank, run=RUN).load_graph(path)
    path.unlink()
    assert ref.dtype == "graph" and Store(bank, "run-2").get(ref.key).count("\n") == 2
    with pytest.raises(QueryFailed, match="no such file"):
        build_tools(bank, run=RUN).load_graph(path)


@pytest.mark.parametrize("options", [{"payloads": "Naive"}, {"mode": "automatic"}])
def test_a_policy_of_tools_that_cannot_be_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="give one of"):
        ToolPolicy(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("run", ["", "r" * 257])
def test_a_run_needs_an_id_that_an_event_can_hold(bank: Bank, run: str) -> None:
    with pytest.raises(BadInput, match="a run's id"):
        build_tools(bank, run=run)


def test_a_handle_where_none_is_taken_is_a_wrong_argument(bank: Bank) -> None:
    toolbox = toolbox_for(session_for(bank))
    ref = toolbox.session.store.resolve(toolbox.call("put", {"content": "x"}))
    assert toolbox.call("put", {"content": ref})["error"]["code"] == "bad_arguments"
    assert toolbox.call("ctx_stats", {"ref": ref})["length"] == 1


def test_a_mapping_that_cannot_be_read_is_no_exception_either(bank: Bank) -> None:
    class Odd(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("/srv/secret")

    result = toolbox_for(session_for(bank)).call("ctx_stats", {"ref": Odd(a=1)})
    assert result["error"]["code"] == "tool_failed" and "secret" not in json.dumps(result)


def test_in_the_naive_mode_a_result_is_a_handle_too(bank: Bank) -> None:
    toolbox = toolbox_for(session_for(bank, ToolPolicy(payloads="naive")))
    result = toolbox.call("put", {"content": "x" * 15_000})
    assert toolbox.call("ctx_stats", {"ref": {**result, "naive_payload": "x" * 150_000}})["length"] == 15_000
