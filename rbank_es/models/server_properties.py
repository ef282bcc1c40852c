"""The look at a model's server: what it says of itself without a call of the model, and what earlier tries found.

Two GETs, `/models` of everybody and `/props` of llama.cpp, to an address that a person named. What calls of the model
found is kept in the user's cache, one small file for each model and address, and counts while the server reports the
same build and model.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import LimitExceeded, LmFailed, MissingExtra
from rbank_es.events.server_traits import ServerTraits
from rbank_es.limits import reply_limits
from rbank_es.models.answer_bounds import AnswerDeadline, bounded, run_within
from rbank_es.models.live_model import address_of, live_model, openai_name
from rbank_es.models.model_call import RetryableFailure, failed
from rbank_es.models.model_choice import FUNCTION, LmChoice
from rbank_es.models.server_http import connection_failures
from rbank_es.system.files import cache_folder, read_regular, write_replacing

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

_FOLDER = "models"
_UNAVAILABLE = 503
LOADS_PAUSE_S = 0.5
"""Seconds between two looks at a server that loads its model."""


class ServerWord(NamedTuple):
    """What a server says of itself: the HTTP status and the JSON of each page; None where there is none."""

    status: int | None = None
    props: Any = None
    models: Any = None
    failure: LmFailed | None = None
    """Why nothing was said at all: `unreachable` or `timeout`; `server_error` while the model is still loaded."""


def known_traits(choice: LmChoice) -> ServerTraits:
    """Return what is known of a model, by a look at its server and by earlier tries. No model is called.

    Whatever the server does, this ends within `SERVER_LOOK_S`, or `SERVER_LOADS_S` if it says that it loads its model,
    and raises nothing.
    """
    seen = traits_of(choice, look(choice))
    return merged(seen, kept(choice))


def traits_by_model(choices: Iterable[LmChoice]) -> dict[str, ServerTraits]:
    """Return what is known of each of several models, by name, as `known_traits`."""
    return {name: known_traits(choice) for name, choice in {each.name: each for each in choices}.items()}


def look(choice: LmChoice) -> ServerWord:
    """Return what the server of a choice says of itself; nothing for one without an address, which nobody named."""
    address = address_of(choice)
    if choice.scripted or choice.model.startswith(FUNCTION) or openai_name(choice) is None or address is None:
        return ServerWord()
    try:
        model: Any = live_model(choice)
    except (LmFailed, MissingExtra):
        return ServerWord()
    try:
        return _loaded(
            lambda: run_within(reply_limits.SERVER_LOOK_S, lambda: _asked(model.client, address.rstrip("/")))
        )
    except LmFailed as failure:
        return ServerWord(failure=failure)
    finally:
        model.close()


def traits_of(choice: LmChoice, said: ServerWord) -> ServerTraits:
    """Return the traits that follow from what a server says of itself."""
    row = _row(said.models, openai_name(choice) or choice.model)
    served = _name(row.get("id"))
    made = ServerTraits(model=choice.name, served=served)
    props = said.props if isinstance(said.props, dict) else {}
    if "build_info" in props or "default_generation_settings" in props:
        return _of_llama_cpp(made, props)
    if row.get("owned_by") == "vllm":
        # Tools need options of its command line, which it does not tell.
        length = _count(row.get("max_model_len"))
        return _speaks_openai(made, "vLLM", context_tokens=length)
    return msgspec.structs.replace(made, context_tokens=_told_length(row))


_LENGTHS = ("loaded_context_length", "max_model_len", "context_length", "context_window", "n_ctx")
"""Names under which servers tell the length of the context: that of the loaded model before the model's own."""


def _told_length(row: dict[str, Any]) -> int | None:
    meta = row.get("meta")
    places = (row, meta if isinstance(meta, dict) else {})
    return next((length for place in places for name in _LENGTHS if (length := _count(place.get(name)))), None)


def merged(seen: ServerTraits, tried: ServerTraits | None) -> ServerTraits:
    """Return what a look saw, with what earlier tries found, if they tried the same server and model.

    What a server says of itself now counts before what was tried.
    """
    if tried is None or (seen.server, seen.served) != (tried.server, tried.served):
        return seen
    known = {name: getattr(seen, name) for name in seen.__struct_fields__}
    return msgspec.structs.replace(tried, **{name: value for name, value in known.items() if value not in (None, {})})


# ---------------------------------------------------------------- what was tried


def kept(choice: LmChoice) -> ServerTraits | None:
    """Return what was found of a model at its address; None if nothing was, or if it can't be read."""
    with suppress(OSError, LimitExceeded, msgspec.DecodeError):
        place = _place(choice)
        if place is not None:
            return msgspec.json.decode(read_regular(place, reply_limits.SERVER_TRAITS_BYTES), type=ServerTraits)
    return None


def keep(choice: LmChoice, found: ServerTraits) -> None:
    """Keep what was found of a model at its address, where the user's cache can be written."""
    with suppress(OSError):
        place = _place(choice)
        if place is not None:
            write_replacing(place, [msgspec.json.encode(found)])


def _place(choice: LmChoice) -> Path | None:
    folder = cache_folder(_FOLDER)
    name = hashlib.sha256(json.dumps([choice.name, address_of(choice)]).encode()).hexdigest()
    return folder / f"{name}.json" if folder is not None else None


# ---------------------------------------------------------------- what a server says


def _loaded(ask: Callable[[], ServerWord]) -> ServerWord:
    """Return what a server says once its model is loaded: until then, for minutes, llama.cpp answers 503 to all."""
    ends = time.monotonic() + reply_limits.SERVER_LOADS_S
    while _loads(said := ask()):
        if time.monotonic() > ends:
            still = f"the server still loads its model after {reply_limits.SERVER_LOADS_S:g} s"
            return said._replace(failure=failed("server_error", still))
        time.sleep(LOADS_PAUSE_S)
    return said


def _loads(said: ServerWord) -> bool:
    errors = (page.get("error") for page in (said.models, said.props) if isinstance(page, dict))
    return any("loading" in str(error.get("message")).lower() for error in errors if isinstance(error, dict))


def _asked(client: httpx.Client, address: str) -> ServerWord:
    deadline = AnswerDeadline(reply_limits.SERVER_LOOK_S, "the model's server didn't say in time what it is")
    try:
        status, models = _page(client, f"{address}/models", deadline)
        _, props = _page(client, f"{address.removesuffix('/v1')}/props", deadline)
    except RetryableFailure as turned:
        return ServerWord(failure=turned.failure)
    except LmFailed as failure:
        return ServerWord(failure=failure)
    return ServerWord(status, props, models)


def _page(client: httpx.Client, url: str, deadline: AnswerDeadline) -> tuple[int, Any]:
    """Return the status of a page and its JSON, None where it has none. Raises as `connection_failures`."""
    with connection_failures(), client.stream("GET", url, timeout=reply_limits.SERVER_LOOK_S) as found:
        body = b"".join(bounded(found.iter_raw(), deadline))
    try:
        return found.status_code, json.loads(body) if found.status_code in (200, _UNAVAILABLE) else None
    except (ValueError, RecursionError):
        return found.status_code, None


def _row(models: Any, name: str) -> dict[str, Any]:
    """Return the row of a model in a list of models: the one of its name, else the only one."""
    rows = models.get("data") if isinstance(models, dict) else None
    found: list[dict[str, Any]] = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    named = [row for row in found if row.get("id") == name]
    return (named or (found if len(found) == 1 else [{}]))[0]


def _of_llama_cpp(made: ServerTraits, props: dict[str, Any]) -> ServerTraits:
    settings, caps = props.get("default_generation_settings"), props.get("chat_template_caps")
    length = settings.get("n_ctx") if isinstance(settings, dict) else props.get("n_ctx")
    # Without them in the template, `tools` is ignored without a word.
    tools = caps.get("supports_tools") if isinstance(caps, dict) else None
    build = _name(f"llama.cpp {props.get('build_info') or ''}".strip()) or "llama.cpp"
    traits = _speaks_openai(made, build, context_tokens=_count(length))
    return msgspec.structs.replace(traits, tools=tools if isinstance(tools, bool) else None)


def _speaks_openai(made: ServerTraits, server: str, *, context_tokens: int | None) -> ServerTraits:
    """Return the traits of a server whose manual says that it has them all."""
    return msgspec.structs.replace(
        made,
        server=server,
        context_tokens=context_tokens,
        bound="max_tokens",
        stop=True,
        stream_usage=True,
        json_schema=True,
    )


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 < value <= limits.COUNT_MOST else None


def _name(value: Any) -> str | None:
    if not isinstance(value, str) or not value.isprintable():
        return None
    # A path would name folders of somebody's machine.
    name = value.rpartition("/")[2] if value.startswith(("/", ".", "~")) else value
    return name[: limits.NAME_CHARS] or None
