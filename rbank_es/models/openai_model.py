"""The model over HTTP: a server that speaks OpenAI's protocol, `POST …/chat/completions`, over httpx.

Whatever the server does, a try ends in time, takes no more memory than its bounds, and gives an answer or a failure
with a code. It connects to the address that a person named, or OpenAI's, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.events.server_traits import Bound
from rbank_es.limits import reply_limits
from rbank_es.models.answer_bounds import AnswerDeadline, Result, bounded, run_within
from rbank_es.models.completion_stream import CompletionStream
from rbank_es.models.context_length import length_in, says_too_long
from rbank_es.models.lm_request import LmMessage, LmRequest, LmResponse
from rbank_es.models.model_call import (
    UNREADABLE,
    Model,
    ModelAnswer,
    Question,
    RetryableFailure,
    Try,
    code_of_refusal,
    failed,
    said_by,
)
from rbank_es.models.model_choice import TOKEN_BOUNDS, LmChoice
from rbank_es.models.server_http import connection_failures, server_client
from rbank_es.sparql.engines.retry import retry_after_s, utc_now
from rbank_es.system.error_messages import foreign_words
from rbank_es.system.token_estimate import estimated_tokens

if TYPE_CHECKING:
    import httpx

ADDRESS = "https://api.openai.com/v1"

_ENDS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "content_filter": "content_filter",
}
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
_NO_ANSWER = "the model gave no answer within {:g} s"

_WORDS = {
    "context_too_long": "the request is longer than the model reads",
    "no_credit": "the provider asks for payment",
    "rate_limited": "the provider turned the call away",
    "refused": "the provider refused the request",
    "server_error": "the provider failed",
    "timeout": "the provider took too long",
    "unknown_model": "the provider has no such model, or the address is wrong",
    "bad_response": "the answer can't be read",
}
_USAGE = {
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "total_tokens": ("total_tokens",),
    "cache_read_tokens": ("prompt_tokens_details", "cached_tokens"),
    "cache_write_tokens": ("prompt_tokens_details", "cache_write_tokens"),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
    "input_audio_tokens": ("prompt_tokens_details", "audio_tokens"),
    "output_audio_tokens": ("completion_tokens_details", "audio_tokens"),
}


class OpenAiModel:
    """A model of a server that speaks OpenAI's protocol, safe for several threads.

    Requests that hold more than texts and functions (pictures), which only dspy makes, go through dspy's client.
    """

    def __init__(self, choice: LmChoice, name: str, address: str | None, key: str | None, variable: str) -> None:
        """Keep the parts; nothing is sent. `name` is the model's at the server; `variable` names the key in errors."""
        self._choice, self._name, self._address = choice, name, address
        self._variable = variable
        self.client = server_client(choice.timeout_s, key)
        self._others: Model | None = None
        # OpenAI lets only verified organisations stream some of its models.
        self._streams = address is not None

    def prepare(self, question: Question) -> Try:
        """Return a try that asks the server once."""
        if not question.request.plain:
            return self._other_model().prepare(question)
        body, request = self._body(question.request, question.bound), question.request
        return lambda: self._once(body, request)

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        if self._others is not None:
            self._others.close()

    def _other_model(self) -> Model:
        from rbank_es.models.dspy_model import DspyModel

        self._others = self._others or DspyModel(self._choice, self._address, self._variable)
        return self._others

    def _body(self, request: LmRequest, bound: Bound | None) -> dict[str, Any]:
        """Return the request in OpenAI's form; `bound` is the server's name of the bound of a reply, if known."""
        system = [{"role": "system", "content": request.system}] if request.system else []
        said = [each for message in request.messages for each in _messages_of(message)]
        config = dict(request.config)
        if request.tools:
            told = ("name", "description", "parameters")
            config["tools"] = [
                {"type": "function", "function": {name: tool.get(name) for name in told}} for tool in request.tools
            ]
        if choice := config.pop("tool_choice", None):
            config["tool_choice"] = choice["mode"]
        # OpenAI's newer models refuse the older name, and some servers of one's own know no other.
        given = tuple(name for name in TOKEN_BOUNDS if name in self._choice.arguments)
        usual: Bound = "max_tokens" if self._address else "max_completion_tokens"
        named = {"max_tokens": given[-1] if given and self._address else bound or usual, "user_id": "user"}
        reasoning, more = config.pop("reasoning", None), config.pop("extensions", {})
        if reasoning:
            effort = reasoning.get("effort")
            config["reasoning_effort"] = "none" if effort == "off" else effort
        parameters = {named.get(name, name): value for name, value in config.items()}
        return {"model": self._name, "messages": [*system, *said], **parameters, **more}

    def _once(self, body: dict[str, Any], request: LmRequest) -> ModelAnswer:
        if not self._streams:
            return self._within(body, request, self._choice.timeout_s)
        try:
            return self._within({**body, **_STREAMED}, request, reply_limits.READING_TIMES * self._choice.timeout_s)
        except LmFailed as failure:
            if not self.refuses_streams(failure):
                raise
            # At once, and as a try of its own: each request is recorded.
            raise RetryableFailure(failure, 0.0) from failure

    def refuses_streams(self, failure: LmFailed) -> bool:
        """Return whether a failure says that the server doesn't stream: from then on it is asked for whole answers."""
        refused = failure.code == "refused" and "stream" in failure.message
        self._streams &= not refused
        return refused

    def _within(self, body: dict[str, Any], request: LmRequest, seconds: float) -> ModelAnswer:
        """Ask once; the first word must come within so many seconds, and from then on the rest within the timeout."""
        tokens = estimated_tokens(request.words)
        deadline = AnswerDeadline(
            seconds, f"{_NO_ANSWER.format(seconds)}; it includes reading {tokens:,} tokens or fewer"
        )
        sent = json.dumps(body).encode()
        # httpx bounds each read, not their sum: a server that answers byte by byte would never end.
        return run_within(deadline, lambda: self._asked(sent, request, deadline))

    def _asked(self, sent: bytes, request: LmRequest, deadline: AnswerDeadline) -> ModelAnswer:
        import httpx

        # A thread may begin late on a busy machine, and a socket takes no time below 0.
        deadline.check()
        url = f"{(self._address or ADDRESS).rstrip('/')}/chat/completions"
        timeout = httpx.Timeout(max(deadline.left_s, 0.001), connect=min(limits.LM_CONNECT_S, self._choice.timeout_s))
        with connection_failures(), self.client.stream("POST", url, content=sent, timeout=timeout) as found:
            body, cut = self._read(found, deadline)
        if not 200 <= found.status_code < 300:
            raise refusal(found.status_code, found.headers, body, self._variable)
        response, ended = read_completion(body, self._name, self._variable)
        return ModelAnswer(response, self._cost(request, response), ended, cut)

    def _read(self, found: httpx.Response, deadline: AnswerDeadline) -> tuple[bytes, str]:
        """Return the body of a whole answer, and why a streamed one was left before its end; empty if it wasn't."""
        if not (found.is_success and found.headers.get("content-type", "").startswith("text/event-stream")):
            body = b"".join(bounded(found.iter_raw(), deadline))
            # It went without a word over what was asked for.
            self._streams &= not found.is_success
            return body, ""
        stream, timeout_s = CompletionStream(), self._choice.timeout_s
        for piece in bounded(found.iter_raw(), deadline):
            began = stream.began
            _of_stream(partial(stream.feed, piece))
            if stream.began and not began:
                deadline.restart(timeout_s, f"the answer didn't end within {timeout_s:g} s of its first word")
            if stream.ended:
                break
        whole = _of_stream(stream.body)
        if whole is None:
            raise RetryableFailure(failed("bad_response", "the answer broke off before its end"))
        return whole, f"it was cut: {stream.repetition}" if stream.repetition is not None else ""

    def _cost(self, request: LmRequest, response: LmResponse) -> float | None:
        # No list has prices for a server of one's own, and only dspy ships one.
        if self._address is not None or find_spec("dspy") is None:
            return None
        from rbank_es.models.dspy_calls import price_of

        return price_of(request, response, "openai", self._name)


def _messages_of(message: LmMessage) -> list[dict[str, Any]]:
    """Return a message in OpenAI's form; for results of tools one each."""
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": part["id"], "content": _joined(part["content"])} for part in message.parts
        ]
    text = _joined(message.parts)
    calls = [
        {
            "id": part["id"],
            "type": "function",
            "function": {"name": part["name"], "arguments": json.dumps(part["input"], separators=(",", ":"))},
        }
        for part in message.parts
        if part.get("type") == "tool_call"
    ]
    if not calls:
        return [{"role": message.role, "content": text}]
    return [{"role": message.role, "content": text or None, "tool_calls": calls}]


def _joined(parts: list[dict[str, Any]]) -> str:
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def _of_stream(read: Callable[[], Result]) -> Result:
    """Return what is read of a stream. Raises `RetryableFailure` for what is no chunk."""
    try:
        return read()
    except UNREADABLE as error:
        raise _unread(error) from error


def _unread(error: Exception) -> RetryableFailure:
    # Other kinds than of values only name what our own code tried.
    why = said_by(foreign_words(error)) if isinstance(error, ValueError) else ""
    return RetryableFailure(failed("bad_response", f"the answer is of no known form{why}"))


def read_completion(body: bytes, model: str, variable: str = "") -> tuple[LmResponse, str]:
    """Return the response in an answer's body, and the server's word for its end where it is none of ours.

    `model` is the name for an answer that has none. Raises `RetryableFailure` for what is no completion, and the
    failure that the body says.
    """
    try:
        data = json.loads(body)
        if isinstance(data, dict) and isinstance(data.get("error"), dict):
            raise refusal(500, {}, body, variable)
        return _completion(data, model)
    except (LmFailed, RetryableFailure):
        raise
    except UNREADABLE as error:
        raise _unread(error) from error


def _completion(data: dict[str, Any], model: str) -> tuple[LmResponse, str]:
    choices = data.get("choices") or []
    chosen = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = chosen.get("message")
    parts = _parts(message if isinstance(message, dict) else {}) or [{"type": "text", "text": ""}]
    calls = any(part["type"] == "tool_call" for part in parts)
    given = chosen.get("finish_reason")
    response = LmResponse(
        id=str(data["id"]) if data.get("id") else None,
        model=str(data.get("model") or model),
        message=LmMessage(role="assistant", parts=parts),
        finish_reason="tool_call" if calls else _ENDS.get(str(given), "stop"),
        usage=_usage(data.get("usage")),
    )
    return response, "" if calls or not given or str(given) in _ENDS else str(given)


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    thinking, content = message.get("reasoning_content") or message.get("reasoning"), message.get("content")
    texts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = [each.get("text") for each in texts if isinstance(each, dict) and each.get("type") == "text"]
    parts = [{"type": "thinking", "text": str(thinking)}] if thinking else []
    parts += [{"type": "text", "text": each} for each in said if isinstance(each, str) and each]
    parts += [{"type": "refusal", "text": str(message["refusal"])}] if message.get("refusal") else []
    calls = message.get("tool_calls")
    return [*parts, *(_call(each, at) for at, each in enumerate(calls if isinstance(calls, list) else []))]


def _call(call: Any, at: int) -> dict[str, Any]:
    function = call["function"]
    given = function.get("arguments") or "{}"
    try:
        # Some servers send the object itself.
        given = given if isinstance(given, dict) else json.loads(given)
    except (ValueError, RecursionError):
        given = {"partial_json": str(function["arguments"])}
    given = given if isinstance(given, dict) else {"value": given}
    return {
        "type": "tool_call",
        "id": str(call.get("id") or f"call_{at}"),
        "name": str(function["name"]),
        "input": given,
    }


def _usage(given: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, path in _USAGE.items():
        value = given
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == value // 1:
            found[name] = int(value)
    if "input_tokens" in found and "output_tokens" in found:
        found.setdefault("total_tokens", found["input_tokens"] + found["output_tokens"])
    return found


def refusal(status: int, headers: Any, body: bytes, variable: str) -> LmFailed | RetryableFailure:
    """Return the failure that an answer other than a completion stands for."""
    said, named = _said_in(body)
    code = code_of_refusal(status, named, too_long=says_too_long(status, said, named))
    words = f"the provider refused the key{variable and ' in '}{variable}" if code == "wrong_key" else _WORDS[code]
    failure = failed(code, f"{words} (HTTP {status}){said_by(said)}")
    if code in ("rate_limited", "server_error"):
        return RetryableFailure(failure, retry_after_s(headers, utc_now()))
    return RetryableFailure(failure) if code == "bad_response" else failure


def _said_in(body: bytes) -> tuple[str, list[str]]:
    """Return the message of an error, and the codes beside it."""
    text = body.decode("utf-8", "replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text, []
    error = data.get("error", data) if isinstance(data, dict) else {}
    if not isinstance(error, dict):
        return str(error), []
    said = next((str(error[name]) for name in ("message", "detail") if error.get(name)), text)
    # llama.cpp tells the length of its context beside the message.
    if type(length := error.get("n_ctx")) is int and length_in(said) is None:
        said = f"{said} (n_ctx {length})"
    return said, [str(error[name]) for name in ("code", "type") if error.get(name)]
