"""The tries of a server: a few small calls that show which parameters it keeps, and how fast its model is.

They are for servers that speak OpenAI's protocol. Each asks once: a failed try is a finding, and isn't repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rbank_es.errors import LmFailed
from rbank_es.events.server_traits import Bound, ServerTraits
from rbank_es.limits import reply_limits
from rbank_es.models.answer_bounds import bounded, run_within
from rbank_es.models.completion_stream import CompletionStream
from rbank_es.models.doctor_time import TryTime
from rbank_es.models.live_model import address_of, openai_name
from rbank_es.models.lm_request import LmResponse
from rbank_es.models.model_call import STOPPING, UNREADABLE, RetryableFailure, failed
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.model_findings import Tried
from rbank_es.models.openai_model import ADDRESS, OpenAiModel, read_completion, refusal
from rbank_es.models.server_http import connection_failures

if TYPE_CHECKING:
    import httpx

TRIES = {
    "bound": "a streamed reply with a bound of tokens: its speed, its numbers, and whether the bound is kept",
    "other_bound": "the same under the bound's other name, if the first is refused or ignored",
    "stop": "a reply that a `stop` ends",
    "json_schema": "a reply by a JSON schema",
}
"""The tries of a server, in their order, with what each asks for."""

_SEA = "The sea lay flat under a grey sky, and no ship was to be seen from the gallery of the light. "
_LONG = f"{_SEA * 8}\n\nCount from one to one hundred in words, one number a line."
_SCHEMA = {
    "type": "object",
    "properties": {"legs": {"type": "integer"}},
    "required": ["legs"],
    "additionalProperties": False,
}


class _Reply(NamedTuple):
    """A reply, the seconds to its first word and to its end, and whether it came in a stream."""

    response: LmResponse
    first_s: float
    all_s: float
    streamed: bool

    def tokens(self, kind: str) -> int | None:
        """Return the reported tokens, `input` or `output`; None if none were."""
        found: int | None = self.response.usage.get(f"{kind}_tokens")
        return found


def try_server(
    model: OpenAiModel, choice: LmChoice, traits: ServerTraits, time_of_all: TryTime
) -> Iterator[tuple[Tried, ServerTraits]]:
    """Make the tries, and yield each with the traits as they are known then.

    Raises `LmFailed` if the first one shows that no other can succeed: an unreachable server, a wrong key or model.
    """
    asking = _Asking(model, choice, time_of_all)
    for name in ("bound", "other_bound"):
        if not time_of_all.fits(name, traits):
            break
        bound: Bound = _bounds(choice)[name == "other_bound"]
        tried, traits = asking.bound(name, bound, traits)
        yield tried, traits
        if tried.kept:
            break
    for name in (each for each in TRIES if each not in ("bound", "other_bound")):
        if not time_of_all.fits(name, traits):
            continue
        tried = asking.tried(name, traits)
        yield tried, (traits := _with(traits, name, tried.kept))


def _bounds(choice: LmChoice) -> tuple[Bound, Bound]:
    # OpenAI's newer models refuse the older name; servers of one's own may ignore the newer.
    return ("max_tokens", "max_completion_tokens") if address_of(choice) else ("max_completion_tokens", "max_tokens")


def _with(traits: ServerTraits, name: str, kept: bool | None) -> ServerTraits:
    return traits if kept is None else msgspec.structs.replace(traits, **{name: kept})


class _Asking:
    """The tries of one server. `bound` is the parameter that bounds its replies, once it is known."""

    def __init__(self, model: OpenAiModel, choice: LmChoice, time_of_all: TryTime) -> None:
        self._model, self._choice, self._time = model, choice, time_of_all
        self._url = f"{(address_of(choice) or ADDRESS).rstrip('/')}/chat/completions"
        self._name = openai_name(choice) or choice.model
        self._bound: str | None = None

    def bound(self, name: str, bound: Bound, traits: ServerTraits) -> tuple[Tried, ServerTraits]:
        """Try a bound in a stream. Raises `LmFailed` where no other call would succeed."""
        most = reply_limits.TRIED_REPLY_TOKENS
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        reply = self._ask(name, _LONG, **{bound: most}, **streaming)
        if isinstance(reply, Tried):
            return reply, traits
        numbers, reported = reply.streamed and reply.tokens("output") is not None, reply.tokens("output")
        tokens = reported if reported is not None else len(reply.response.text.split())
        kept = tokens <= most + 1
        traits = msgspec.structs.replace(traits, stream_usage=numbers, **_rates(reply))
        self._bound = bound if kept else None
        traits = msgspec.structs.replace(traits, bound=bound if kept else None)
        words = f"{bound}={most} gave {tokens} tokens" + ("" if numbers else "; the stream has no numbers of tokens")
        return _tried(name, kept, words, reply), traits

    def tried(self, name: str, traits: ServerTraits) -> Tried:
        """Make one of the other tries."""
        reply = self._ask(name, *_QUESTIONS[name], **_PARAMETERS[name])
        return reply if isinstance(reply, Tried) else _READ[name](reply)

    def _ask(self, name: str, question: str, **parameters: Any) -> _Reply | Tried:
        """Return the reply, or the finding that there was none."""
        # A time first, because a server that knows the prompt from before would not read it.
        body = {"model": self._name, "messages": [{"role": "user", "content": f"{time.time_ns()}. {question}"}]}
        bound: dict[str, Any] = {self._bound: reply_limits.TRIED_REPLY_TOKENS} if self._bound else {}
        sent = json.dumps({**body, **bound, **parameters}).encode()
        began = time.monotonic()
        try:
            within = min(self._choice.timeout_s, self._time.left_s)
            return run_within(within, lambda: _once(self._model.client, self._url, sent, began))
        except LmFailed as failure:
            if failure.code in STOPPING:
                raise
            told = failure
        except RetryableFailure as turned:
            told = turned.failure
        self._model.refuses_streams(told)
        refused = False if told.code == "refused" else None
        return Tried(name=name, kept=refused, detail=told.message, duration_s=round(time.monotonic() - began, 2))


def _rates(reply: _Reply) -> dict[str, float]:
    """Return the tokens a second of reading and of writing, as far as a streamed reply shows them."""
    rates, writing_s = dict[str, float](), reply.all_s - reply.first_s
    if reply.first_s > 0 and (read := reply.tokens("input")):
        rates["read_tokens_s"] = round(read / reply.first_s, 1)
    if reply.first_s > 0 and writing_s > 0 and (written := reply.tokens("output") or 0) > 1:
        # The first token was there when the clock for the others began.
        rates["written_tokens_s"] = round((written - 1) / writing_s, 1)
    return rates


# ---------------------------------------------------------------- the other tries

_QUESTIONS = {
    "stop": ("Write one sentence about the sea.",),
    "json_schema": ("How many legs has a spider? Answer in one whole English sentence.",),
}
_PARAMETERS: dict[str, dict[str, Any]] = {
    # A letter that every sentence has, so that a small model can't miss it.
    "stop": {"stop": ["e"]},
    "json_schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "legs", "strict": True, "schema": _SCHEMA}}
    },
}


def _read_stop(reply: _Reply) -> Tried:
    kept = "e" not in reply.response.text
    return _tried("stop", kept, "the reply ended there" if kept else "the reply went on", reply)


def _read_schema(reply: _Reply) -> Tried:
    try:
        given = json.loads(reply.response.text)
    except (ValueError, RecursionError):
        given = None
    kept = isinstance(given, dict) and given.keys() == {"legs"} and isinstance(given["legs"], int)
    return _tried("json_schema", kept, "the reply is an object of the schema" if kept else "the reply is none", reply)


_READ: dict[str, Callable[[_Reply], Tried]] = {
    "stop": _read_stop,
    "json_schema": _read_schema,
}


def _tried(name: str, kept: bool, detail: str, reply: _Reply) -> Tried:
    return Tried(
        name=name,
        kept=kept,
        detail=detail,
        tokens_in=reply.tokens("input"),
        tokens_out=reply.tokens("output"),
        duration_s=round(reply.all_s, 2),
    )


# ---------------------------------------------------------------- on the wire


def _once(client: httpx.Client, url: str, sent: bytes, began: float) -> _Reply:
    stream, whole, first_s = CompletionStream(), bytearray(), 0.0
    with connection_failures(), client.stream("POST", url, content=sent) as found:
        streamed = found.is_success and found.headers.get("content-type", "").startswith("text/event-stream")
        for piece in bounded(found.iter_raw()):
            if streamed:
                _feed(stream, piece)
            else:
                whole += piece
            if stream.began and not first_s:
                first_s = time.monotonic() - began
    body = (stream.body() or b"") if streamed else bytes(whole)
    if not found.is_success:
        raise refusal(found.status_code, found.headers, body, "")
    response, _ = read_completion(body, "")
    return _Reply(response, first_s, time.monotonic() - began, streamed)


def _feed(stream: CompletionStream, piece: bytes) -> None:
    try:
        stream.feed(piece)
    except UNREADABLE as error:
        raise failed("bad_response", f"the stream is of no known form ({type(error).__name__})") from error
