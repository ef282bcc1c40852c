"""Parameters of a request: which a model accepts, their ranges, and the names under which a request holds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rbank_es.errors import BadInput
from rbank_es.events.event_envelope import Setting, Settings
from rbank_es.events.run_events import Role
from rbank_es.limits import reply_limits
from rbank_es.models.model_choice import FUNCTION, TOKEN_BOUNDS
from rbank_es.models.prompt import END_MARKER

_REASONING = re.compile(
    r"(?:o[1345](?:-(?:mini|nano|pro))?(?:-\d{4}-\d{2}-\d{2})?|gpt-5(?:\.\d+)*(?!-chat)(?:-.*)?)", re.IGNORECASE
)
"""Names of OpenAI's reasoning models, which take no temperature but 1 (source: dspy)."""

_REASONING_TOKENS = 16_000
"""The least bound of a reasoning model's answer, because its thinking counts (source: dspy)."""

_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


BY_SCHEMA: Settings = {"response_format": "json_schema"}
"""The parameter of a request whose reply has to keep a JSON schema, which the request holds beside it."""

UNSET = frozenset({*TOKEN_BOUNDS, "stop", *BY_SCHEMA})
"""Parameters with a default that false takes away."""

_REPLY_TOKENS: dict[Role, int] = {
    "agent": reply_limits.AGENT_REPLY_TOKENS,
    "sub": reply_limits.SUB_REPLY_TOKENS,
    "judge": reply_limits.JUDGE_REPLY_TOKENS,
    "extractor": reply_limits.EXTRACTOR_REPLY_TOKENS,
}


def bounded_parameters(role: Role, model: str, given: Settings) -> Settings:
    """Return parameters with the default bounds of a role's replies: their tokens, and a stop at the end marker.

    What is given counts; false takes a default away. A reasoning model gets none: it takes no `stop`, and its thinking
    counts. A sub-model's replies have no end marker.
    """
    if takes_no_bounds(model):
        return dict(given)
    tokens: Settings = {} if any(name in given for name in TOKEN_BOUNDS) else {"max_tokens": _REPLY_TOKENS[role]}
    stop: Settings = {} if role == "sub" else {"stop": (END_MARKER,)}
    return {**tokens, **stop, **given}


def takes_no_bounds(model: str) -> bool:
    """Return whether a model is one of OpenAI's reasoning models."""
    return _REASONING.fullmatch(model.rpartition("/")[2]) is not None


def accepted_parameters(model: str, given: Settings) -> Settings:
    """Return the parameters that a model accepts: for reasoning models, none that sets a temperature but 1.

    Raises `BadInput` for a bound under which such a model could not answer, and as `config_of`.
    """
    if model.startswith(FUNCTION):
        return {}  # a function gets the prompt and nothing else
    config = config_of(model, given)
    given = {name: value for name, value in given.items() if not _is_unset(name, value)}
    if not takes_no_bounds(model):
        return given
    if config.get("max_tokens", _REASONING_TOKENS) < _REASONING_TOKENS:
        raise BadInput(f"{model}: a reasoning model needs a max_tokens of at least {_REASONING_TOKENS}, or none")
    cold = config.get("temperature", 1.0) != 1.0
    return {name: value for name, value in given.items() if not (cold and name == "temperature")}


def config_of(model: str, given: Settings) -> dict[str, Any]:
    """Return parameters as a request holds them. Raises `BadInput` for one that none can hold; `model` is for it."""
    config: dict[str, Any] = {}
    for name, value in given.items():
        if _is_unset(name, value):
            continue
        held = "max_tokens" if name in TOKEN_BOUNDS else name
        read = _READERS.get(held)
        try:
            if read is None:
                raise ValueError("requests have no such parameter")
            place, made = read(held, value)
        except ValueError as error:
            raise BadInput(f"{model} can't be given the argument {name}: {error}") from None
        if config.get(place, made) != made and place == held:
            raise BadInput(f"{model} can't be given the argument {name}: {' and '.join(TOKEN_BOUNDS)} differ")
        config[place] = {**config[place], **made} if place == "extensions" and place in config else made
    return config


def _is_unset(name: str, value: Setting) -> bool:
    return name in UNSET and value is False


Reader = Callable[[str, Setting], tuple[str, Any]]


def _number(least: float, most: float) -> Reader:
    def read(name: str, value: Setting) -> tuple[str, Any]:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"{name} must be a number from {least:g} to {most:g}")
        return name, float(value)

    return read


def _whole(least: int | None) -> Reader:
    def read(name: str, value: Setting) -> tuple[str, Any]:
        whole = type(value) is int or (isinstance(value, float) and value.is_integer())
        if not whole or (least is not None and value < least):  # type: ignore[operator]
            raise ValueError(f"{name} must be a whole number{'' if least is None else f' of at least {least}'}")
        return name, int(value)  # type: ignore[arg-type]

    return read


def _text(place: str) -> Reader:
    def read(name: str, value: Setting) -> tuple[str, Any]:
        if not isinstance(value, str) or not value:
            raise ValueError(f"{name} must be a text")
        return place, value

    return read


def _flag(name: str, value: Setting) -> tuple[str, Any]:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return name, value


def _stop(name: str, value: Setting) -> tuple[str, Any]:
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else []
    if not texts or not all(isinstance(each, str) and each for each in texts):
        raise ValueError(f"{name} must be a text or a list of texts")
    return name, texts


def _by_schema(name: str, value: Setting) -> tuple[str, Any]:
    if value != BY_SCHEMA[name]:
        raise ValueError(f"{name} must be {BY_SCHEMA[name]} or false")
    return name, value


def _effort(name: str, value: Setting) -> tuple[str, Any]:
    if value == "none":
        return "reasoning", {"effort": "off"}
    if value not in _EFFORTS:
        raise ValueError(f"{name} must be none, {', '.join(_EFFORTS[:-1])} or {_EFFORTS[-1]}")
    return "reasoning", {"effort": value}


def _kept(name: str, value: Setting) -> tuple[str, Any]:
    return "extensions", {name: list(value) if isinstance(value, tuple) else value}


_READERS: dict[str, Reader] = {
    "max_tokens": _whole(1),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _whole(1),
    "seed": _whole(None),
    "frequency_penalty": _number(-2, 2),
    "presence_penalty": _number(-2, 2),
    "service_tier": _text("service_tier"),
    "store": _flag,
    "stop": _stop,
    "response_format": _by_schema,
    "user": _text("user_id"),
    "safety_identifier": _text("user_id"),
    "reasoning_effort": _effort,
    "verbosity": _kept,
}
