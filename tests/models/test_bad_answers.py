"""A thousand answers as no provider should give them: none crashes, each is recorded, each ends as what it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.errors import LmFailed
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms
from tests.models.openai_server import OpenAiServer, completion
from tests.models.runs import Waits, ask, models
from tests.sparql.fault_server import says

CODES = {"bad_response", "server_error", "refused", "wrong_key", "unknown_model", "rate_limited", "context_too_long"}
CODES |= {"no_credit", "timeout", "response_too_long"}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in plain data."""
    yield path
    entries: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in entries:
        yield from places(inner, (*path, name))


PLACES = list(places(json.loads(completion("an answer"))))


def put(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    inner = whole
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return whole


mutated = st.builds(
    lambda path, value: json.dumps(put(json.loads(completion("an answer")), path, value)).encode(),
    st.sampled_from(PLACES),
    values,
)
cut = st.integers(0, len(completion("an answer"))).map(lambda at: completion("an answer")[:at])
bodies = st.one_of(mutated, mutated, cut, st.binary(max_size=200))
statuses = st.sampled_from(
    ["200 OK"] * 6 + ["201 Created", "204 No Content", "301 Moved", "418 Teapot", "500 X", "999 Y"]
)


@pytest.fixture
def conversation(tmp_path: Path) -> Iterator[tuple[Bank, Lms, list[Any]]]:
    """Models that a server answers with whatever stands last in the list."""
    replies: list[Any] = []
    with OpenAiServer(lambda body: replies[-1]).running() as server:
        choice = LmChoice(model="openai/stub", api_base=server.url)
        with models(tmp_path, choice, sleep=Waits()) as (bank, lms):
            yield bank, lms, replies


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies, statuses, st.sampled_from(["application/json", "text/html", ""]))
def test_any_answer_is_words_or_a_failure_with_a_code(
    conversation: tuple[Bank, Lms, list[Any]], body: bytes, status: str, media: str
) -> None:
    bank, lms, replies = conversation
    replies.append(says(body, media, status))
    before = lms.calls.totals.calls
    try:
        words = ask(lms)
        code = None
        assert words.strip()
    except LmFailed as failure:
        code = failure.code
        assert code in CODES, failure
    assert lms.calls.broken is None
    added = called_since(bank, lms.calls.totals.calls - before)
    assert added and added[-1] == code


def called_since(bank: Bank, number: int) -> list[str | None]:
    """The codes of the last calls that were recorded."""
    after = bank.position - number
    return [event.error_code for event in bank.events(after=after, types={"lm_called"})]  # type: ignore[attr-defined]
