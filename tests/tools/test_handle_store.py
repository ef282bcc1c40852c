"""The store: payloads behind handles, in memory and in a bank's own texts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rbank_es.errors import BadInput, LimitExceeded, UnknownHandle
from rbank_es.events import Ref
from rbank_es.limits import tool_limits
from rbank_es.tools.shared.handle_store import Store
from tests.tools.tool_sessions import RUN, bank_at, session_for, toolbox_for


def test_a_handle_shows_metadata_and_never_the_payload() -> None:
    ref = Store().put("x" * 400_000, "results")
    assert repr(ref) == "Ref('results_0', results, 400000 chars)"
    assert repr(Ref("01a1fd48-cf02-7483-9f52-ef606b3b5d90", "mem", 7, "")) == (
        "Ref('01a1fd48-cf02-7483-9f52-ef606b3b5d90', mem, 7 chars)"
    )
    assert repr(Ref("a" * 64, "text", 7, "")) == "Ref('aaaaaaaaaaaa…', text, 7 chars)"
    assert ref.prev == "x" * 80
    assert len(repr(ref)) < 100


def test_what_is_put_can_be_got_peeked_sliced_and_counted() -> None:
    store = Store()
    text = "one\ntwo\nthrée"
    ref = store.put(text, "text")
    assert store.get(ref) == text
    assert store.slice(ref, 0, 3) == store.peek(ref, 3) == "one"
    assert store.peek(ref) == text
    assert Store.peek(store, store.put("x" * 1_000, "text")) == "x" * 200
    assert store.slice(ref, 4, 7) == "two"
    assert store.slice(ref, 4, 10**9) == "two\nthrée"
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert store.stats(ref) == {"key": "text_0", "dtype": "text", "length": 13, "lines": 3, "sha256": digest}


@pytest.mark.parametrize(
    "handle", ["", "results_9", "x" * 9_999, {}, {"key": 7}, {"key": ""}, Ref("no", "text", 1, "")]
)
def test_what_names_nothing_is_refused(handle: object) -> None:
    with pytest.raises(UnknownHandle, match="give the handle that a tool returned"):
        Store().get(handle)  # type: ignore[arg-type]


def test_negative_offsets_are_refused() -> None:
    store = Store()
    ref = store.put("payload", "text")
    with pytest.raises(BadInput, match="can't be negative"):
        store.slice(ref, -3, 2)
    with pytest.raises(BadInput, match="can't be negative"):
        store.slice(ref, 0, -1)


def test_a_payload_over_the_limit_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="bytes of a payload"):
        Store().put('"' * (tool_limits.PAYLOAD_BYTES // 2 + 1), "text")


def test_a_store_without_a_bank_has_a_limit_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_limits, "STORE_CHARS", 10)
    store = Store()
    store.put("12345678", "text")
    with pytest.raises(LimitExceeded, match="held in memory"):
        store.put("123", "text")


def test_an_erased_payload_is_said_to_be_erased(tmp_path: Path) -> None:
    with bank_at(tmp_path / "bank") as bank:
        handle = toolbox_for(session_for(bank)).call("put", {"content": "secret words " * 300})
        bank.erase(text="secret words " * 300)
        with pytest.raises(UnknownHandle, match="erased"):
            Store(bank, RUN).get(handle["key"])


def test_payloads_beyond_what_memory_keeps_are_read_from_the_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_limits, "PAYLOADS_KEPT_CHARS", 5_000)
    with bank_at(tmp_path / "bank") as bank:
        toolbox = toolbox_for(session_for(bank))
        handles = [toolbox.call("put", {"content": str(n) * 4_000}) for n in range(5)]
        assert [toolbox.session.store.get(handle)[:3] for handle in handles] == ["000", "111", "222", "333", "444"]
