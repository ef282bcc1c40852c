"""What people and the log are told of an error of another package: our words, without addresses, classes or stack."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pydantic
import pytest

from rbank_es.models.model_call import RetryableFailure
from rbank_es.system.error_messages import foreign_words

FOREIGN = re.compile(
    r"https?://|Traceback|\bFile \"|Errno|0x[0-9a-f]|\b(?:httpx|httpcore|h11|pydantic|dspy|litellm|msgspec)\b"
    r"|\b[A-Za-z]+(?:Error|Exception)\b"
)
"""Of another package: an address, a stack, a number of the system, a module, a class."""


class Answer(pydantic.BaseModel):
    evidence: dict[str, Any]


class StrangeError(Exception):
    """A class that a message must not name."""


def raised(work: Callable[[], object]) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


ERRORS: dict[str, tuple[Callable[[], Exception], str]] = {
    "pydantic": (
        lambda: raised(lambda: Answer.model_validate({"evidence": "None"})),
        "1 validation error for Answer evidence Input should be a valid dictionary",
    ),
    "refused": (lambda: httpx.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
    "status": (
        lambda: raised(httpx.Response(404, request=httpx.Request("GET", "http://a.example/v1")).raise_for_status),
        "Client error '404 Not Found' for",
    ),
    "certificate": (
        lambda: httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1006)"),
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
    ),
    "silent": (lambda: httpx.ReadError(""), "an error"),
    "chained": (lambda: StrangeError("litellm.APIConnectionError: no route"), "no route"),
    "stack": (lambda: StrangeError('it broke\nTraceback (most recent call last):\n  File "x.py", line 1'), "it broke"),
    "object": (lambda: StrangeError("no <httpx.Client object at 0x7f00aa> here"), "no here"),
    "json": (lambda: raised(lambda: json.loads("{")), "Expecting property name enclosed in double quotes: line 1"),
    "key": (lambda: KeyError("choices"), "KeyError: 'choices'"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_words_of_an_error_of_another_package_are_ours(name: str) -> None:
    make, words = ERRORS[name]
    told = foreign_words(make())
    assert told.startswith(words) and "\n" not in told
    assert FOREIGN.search(told) is None or name == "key", "a kind of Python's where there is nothing else"


@pytest.mark.parametrize("name", ERRORS)
def test_a_client_of_dspy_that_fails_is_told_in_our_words(name: str) -> None:
    pytest.importorskip("dspy")
    from rbank_es.models.dspy_calls import failure_of_engine

    found = failure_of_engine(ERRORS[name][0](), "")
    told = str(found.failure if isinstance(found, RetryableFailure) else found)
    assert FOREIGN.search(told) is None or name == "key"
