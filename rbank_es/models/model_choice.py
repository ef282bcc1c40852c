"""The choice of a model: name, address and parameters, never its key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.events.event_envelope import Setting
from rbank_es.events.redaction import REDACTED, is_key
from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import Bound
from rbank_es.limits import reply_limits
from rbank_es.system.nearest_name import hint
from rbank_es.system.redacted_locator import names_secret

SCRIPT = "script:"
FUNCTION = "function:"
"""Beginnings of the names of what stands in for a model: a script, and a function given in Python."""

CONTEXT_TOKENS = "context_tokens"
"""The argument that tells how many tokens a model reads and writes, where its server doesn't."""

CONNECTION = ("timeout", CONTEXT_TOKENS, "model_type", "api_version", "organization", "project")
"""Arguments of the connection; all others are parameters of the request."""

TOKEN_BOUNDS: tuple[Bound, ...] = ("max_tokens", "max_completion_tokens")
"""The two names of the bound of an answer. A request holds it under the first."""

Asker = Role | Literal["guide"]
"""Who asks a model: a role, or the agent of a run that writes a guide."""

ASKERS: tuple[Asker, ...] = (*get_args(Role), "guide")

_REFUSED = {
    "api_base": "give it with --api-base",
    "base_url": "give it with --api-base",
    "model": "give it with --lm",
    "cache": "answers are never cached: rollouts would all get the same one",
    "num_retries": "retries are bounded here, and each is recorded",
    "n": "one call gives one answer",
    "num_generations": "one call gives one answer",
    "stream": "answers are recorded whole",
    "engine": "rbank-es sets it, because every call must be recorded",
    "async_engine": "rbank-es sets it, because every call must be recorded",
    "callbacks": "it is no parameter of a model",
    "messages": "it is no parameter of a model",
}


class LmChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model and how to call it.

    `model` is a name as dspy.LM takes it (`openai/gpt-4.1-mini`, `ollama_chat/llama3`), or `script:FILE`. `api_base` is
    the URL of a server of one's own. `arguments` are parameters such as `temperature`, `max_tokens`, `timeout` (seconds
    for one answer); `judge.max_tokens` is the judge's alone, see `asked_by`. Raises `BadInput` for invalid values, and
    for anything that looks like a key: keys come from environment variables only.
    """

    model: str
    api_base: str | None = None
    arguments: dict[str, Setting] = {}

    def __post_init__(self) -> None:
        check_model(self.model)
        if self.api_base is not None:
            check_address(self.api_base)
        for name, value in self.arguments.items():
            _check_argument(name, value)

    @classmethod
    def parse(cls, model: str, *, api_base: str | None = None, arguments: Iterable[str] = ()) -> LmChoice:
        """Parse the values of command line options; `arguments` are texts `name=value`. Raises `BadInput`.

        A value that is JSON (a number, true, false, or a list) is decoded; any other stays text.
        """
        return cls(model=model, api_base=api_base or None, arguments=dict(map(_parsed, arguments)))

    @property
    def script(self) -> Path | None:
        """The file of scripted turns; None for a real model."""
        return Path(self.model.removeprefix(SCRIPT)) if self.model.startswith(SCRIPT) else None

    @property
    def scripted(self) -> bool:
        """Whether a script stands in for the model."""
        return self.script is not None

    @property
    def name(self) -> str:
        """The model's name as recorded: of a script the file's stem, because paths are of this machine."""
        return self.model if self.script is None else SCRIPT + self.script.name.removesuffix(".toml")

    def asked_by(self, asker: Asker) -> LmChoice:
        """Return the choice for one asker: its own arguments take the place of those for all.

        A guide's are given to the agent that writes it, whose role it has.
        """
        shared = {name: value for name, value in self.arguments.items() if "." not in name}
        own = dict[str, Setting]()
        for name, value in self.arguments.items():
            role, dot, bare = name.partition(".")
            if dot and asker == "guide" and role != "guide":
                shared[name] = value
            elif dot and role == asker:
                own["agent." + bare if asker == "guide" else bare] = value
        # A bound has two names, of which a request holds one.
        if not own.keys().isdisjoint(TOKEN_BOUNDS):
            shared = {name: value for name, value in shared.items() if name not in TOKEN_BOUNDS}
        return msgspec.structs.replace(self, arguments={**shared, **own})

    @property
    def timeout_s(self) -> float:
        """The timeout of one answer, in seconds."""
        return float(self.arguments.get("timeout", limits.LM_TIME_S))  # type: ignore[arg-type]

    @property
    def context_tokens(self) -> int | None:
        """The tokens of a prompt and its reply together, where that was said."""
        given = self.arguments.get(CONTEXT_TOKENS)
        return given if isinstance(given, int) else None

    @property
    def parameters(self) -> dict[str, Setting]:
        """The arguments of each request, whoever asks."""
        return {name: value for name, value in self.arguments.items() if name not in CONNECTION and "." not in name}


def check_model(model: str) -> None:
    """Raise `BadInput` for a text that can't name a model, or looks like a key."""
    # First, because the other message quotes the name.
    if is_key(model):
        raise BadInput("the name of a model looks like a key; keys come from environment variables only")
    bare = model.removeprefix(SCRIPT)
    if not bare or bare != bare.strip() or len(model) > limits.NAME_CHARS or not bare.isprintable():
        raise BadInput(
            f"{model[: limits.GIVEN_CHARS]!r} names no model; give one such as openai/gpt-4.1-mini, or script:FILE"
        )


def check_address(address: str) -> None:
    """Raise `BadInput` for a text that is no http or https URL, or holds a name, a password or a key."""
    try:
        parts = urlsplit(address)
        # Parameters hide in the path and the fragment too, and are separated by ; as well as &.
        given = ";".join((parts.path, parts.query, parts.fragment)).replace(";", "&")
        host, names = parts.hostname, [name for name, _ in parse_qsl(given, keep_blank_values=True)]
        # An invalid port raises only when it is read.
        _ = parts.port
    except ValueError:
        host, parts, names = None, urlsplit(""), []
    if parts.scheme not in ("http", "https") or not host or not address.isprintable() or " " in address:
        raise BadInput("the address of a model must be a URL such as http://localhost:8000/v1")
    if "@" in parts.netloc or any(map(names_secret, names)) or is_key(address):
        raise BadInput(
            "the address of a model must hold no name, password or key; keys come from environment variables"
        )


LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine: what is sent there stays on it."""


def on_this_machine(address: str | None) -> bool:
    """Return whether an address is one of this machine."""
    return address is not None and urlsplit(address).hostname in LOOPBACK


def _check_argument(given: str, value: Setting) -> None:
    asker, dot, bare = given.rpartition(".")
    name = bare if dot and asker in ASKERS else given
    if dot and "." not in asker and asker.isidentifier() and asker not in ASKERS:
        raise BadInput(
            f"{asker[: limits.GIVEN_CHARS]!r} asks no model{hint(asker, ASKERS)}; these do: {', '.join(ASKERS)}"
        )
    texts = [text for text in (value if isinstance(value, tuple) else (value,)) if isinstance(text, str)]
    if names_secret(name) or is_key(name) or any(map(is_key, texts)):
        shown = REDACTED if is_key(name) else name
        raise BadInput(
            f"the argument {shown!r} looks like a key or a header; those come from environment variables only, "
            "such as OPENAI_API_KEY, and are never recorded"
        )
    # Refused instead of ignored, because the record would name parameters that had no effect.
    if name in _REFUSED:
        raise BadInput(f"the argument {name!r} can't be given: {_REFUSED[name]}")
    if not name.isidentifier() or len(name) > limits.NAME_CHARS:
        raise BadInput(f"{name[: limits.GIVEN_CHARS]!r} is no name of an argument")
    if name == "timeout" and not _is_time(value):
        most = limits.LM_TIME_MOST_S
        raise BadInput(f"the argument timeout must be a number of seconds above 0, at most {most:,}, not {value!r}")
    if name == CONTEXT_TOKENS and not (type(value) is int and 0 < value <= reply_limits.CONTEXT_TOKENS_MOST):
        raise BadInput(f"the argument {CONTEXT_TOKENS} must be a whole number of tokens above 0, not {value!r}")


def _is_time(value: Setting) -> bool:
    # Not a bool, which Python counts as an int.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= limits.LM_TIME_MOST_S


def _parsed(text: str) -> tuple[str, Setting]:
    name, equals, value = text.partition("=")
    if not equals:
        shown = REDACTED if is_key(name) else name[: limits.GIVEN_CHARS]
        raise BadInput(f"the argument {shown!r} has no value; give it as name=value")
    return name.strip(), _value(name.strip(), value.strip())


def _value(name: str, text: str) -> Setting:
    # Before JSON, which has no True as Python writes it.
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    try:
        setting: Setting = msgspec.convert(value, Setting)
    except msgspec.ValidationError:
        raise BadInput(
            f"the argument {name[: limits.GIVEN_CHARS]!r} must be a number, true, false, a short text, or a list of "
            "those"
        ) from None
    return setting
