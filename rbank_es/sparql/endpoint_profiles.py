"""Profiles of endpoints: their addresses and prefixes, and the queries that are too slow there to be run."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.sparql.lint import CODES
from rbank_es.system.input_file import read_given

_SECONDS = msgspec.Meta(gt=0, le=limits.QUERY_TIME_MOST_S)


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An endpoint, or (`LOCAL`) the engine here."""

    name: str
    url: str = ""
    """Its http or https address; empty for data on this machine."""
    refuses: dict[str, str] = {}
    """Codes of findings that it is too slow for, each with the fast alternative."""
    prefixes: dict[str, str] = {}
    """Prefixes that queries may use undeclared."""
    timeout_s: Annotated[float, _SECONDS] = limits.QUERY_TIME_S
    notes: str = ""
    """Advice before asking it, in a few sentences."""


LOCAL = Profile(name="local")
"""The engine here: nothing is too slow to be tried, because it is stopped at its time limit."""


def names() -> tuple[str, ...]:
    """Return the names of the profiles in this package."""
    shipped = (entry.name for entry in files("rbank_es").joinpath("data", "endpoints").iterdir())
    return ("local", *sorted(name.removesuffix(".toml") for name in shipped if name.endswith(".toml")))


def profile_named(name: str | Path) -> Profile:
    """Return the profile of a shipped name, of a TOML file, or an empty one for an endpoint's URL.

    Raises `BadInput` for an unknown name, and for a file that can't be read or has a field that no profile has.
    """
    text = str(name)
    if text == LOCAL.name:
        return LOCAL
    if "://" in text:
        return Profile(name=_host(text), url=text)
    if text in names():
        shipped = files("rbank_es").joinpath("data", "endpoints", f"{text}.toml")
        return _decoded(shipped.read_bytes(), text)
    if Path(text).suffix == ".toml" or Path(text).is_file():
        return _decoded(_content(Path(text)), text)
    raise BadInput(
        f"no endpoint profile {text!r}; give a URL, the path of a TOML file, or one of: {', '.join(names())}"
    )


def _content(path: Path) -> bytes:
    try:
        return read_given(path, limits.ENDPOINT_PROFILE_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: the profile can't be read: {error.strerror or error}") from error


def _decoded(content: bytes, place: str) -> Profile:
    try:
        profile = msgspec.toml.decode(content, type=Profile)
    # Bytes that are no UTF-8, and an integer of thousands of digits: each is a ValueError.
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"{place}: this is no endpoint profile: {error}") from error
    # A misspelt code would refuse nothing, and nobody would notice.
    for code in profile.refuses:
        if code not in CODES:
            raise BadInput(f"{place}: unknown code {code!r} under refuses; there are: {', '.join(CODES)}")
    if profile.url:
        _host(profile.url, place)
    return profile


def _host(url: str, place: str = "") -> str:
    """Return the host of a URL. Raises `BadInput` for anything but an http or https URL."""
    where = f"{place}: " if place else ""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise BadInput(f"{where}{url!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise BadInput(f"{where}an endpoint's URL begins with http:// or https:// and a host, unlike {url!r}")
    return host
