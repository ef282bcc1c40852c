"""Locators as people and files may see them: without the secrets that a URL can hold.

A bank, an endpoint or a file may be named by a URL with a password, `engine://user:password@host/bank`, or with a token
among its parameters. Whoever is shown where something is need not be told how to get in. So every locator that is
printed, recorded, cached or put into an error goes through `shown_locator`, and every message through
`without_secrets`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_plus

HIDDEN = "***"
"""The mark in the place of a secret."""

_WORDS = frozenset(
    ("key", "keys", "apikey", "token", "secret", "secrets", "password", "passwd", "pwd", "passphrase", "authorization")
    + ("auth", "bearer", "credential", "credentials", "creds", "header", "headers", "cookie", "cookies")
)
_ENDINGS = ("apikey", "password", "passwd", "secret")
"""Words that end longer ones: PGPASSWORD, myapikey."""
_SIGNATURES = frozenset(("sig", "signature", "pass", "jwt"))
"""Words that name a secret among the parameters of a URL, though not elsewhere."""

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:)(?P<slashes>/{0,3})(?P<rest>.*)", re.DOTALL)
_URL = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/")
_OF_PATHS = ("file:", "memory:")
_PARAMETER = (
    r"(?P<name>[\w%.$-]+)(?P<equals>\s*=\s*)"
    r"(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^&;#\s]*)"
)
_PORT = re.compile(r"\d{1,5}(?:[/?#]|$)")
_IN_MESSAGE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{1,3}[^\s'\"<>|]+")


@lru_cache(maxsize=1_024)
def names_secret(name: str) -> bool:
    """Return whether a variable's or argument's name says that its value is secret: OPENAI_API_KEY, authToken, KEY2."""
    words = _words_of(name)
    return any(word in _WORDS or word.endswith(_ENDINGS) for word in words)


def _words_of(name: str) -> list[str]:
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    return [word.rstrip("0123456789") for word in re.split(r"[^a-z0-9]+", parted)]


def shown_locator(locator: str) -> str:
    """Return a locator without its secrets: passwords, and the values of parameters whose names say so.

    What is no URL, such as a path or a bare name, is returned as it is.
    """
    found = _SCHEME.fullmatch(locator)
    if found is None or found["scheme"] in _OF_PATHS:
        return locator
    rest = _without_password(found["rest"], bool(found["slashes"]))
    return f"{found['scheme']}{found['slashes']}{re.sub(_PARAMETER, _without_value, rest)}"


def is_url(place: str) -> bool:
    """Return whether a place is a URL of something that no path here leads to, such as a database."""
    return _URL.match(place) is not None


def without_secrets(message: str) -> str:
    """Return a message with each URL in it as `shown_locator` shows it."""
    return _IN_MESSAGE.sub(lambda found: shown_locator(found[0]), message) if ":/" in message else message


def _without_password(rest: str, is_url: bool) -> str:
    """Return what is behind a scheme with a mark for the password of `user:password@host`."""
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    user, colon, _ = host.partition(":")
    end = host.rfind("@")
    if not is_url:
        # `user:password@host/bank`: the user looks like a scheme. Of a path, `@` begins a point or is in a name.
        secret = not rest.startswith((".", "/")) and "/" in rest[rest.rfind("@") + 1 :] and "@" in rest
        if not colon:
            return f"{HIDDEN}{rest[rest.rfind('@') :]}" if secret else rest
        end = rest.rfind("@") if secret or end >= 0 else -1
    elif end < 0 and ("/" in rest[rest.rfind("@") + 1 :] or not _PORT.match(rest[len(user) + 1 :])):
        end = rest.rfind("@")  # a password with a slash in it; what follows the @ of a point has none
    if end < 0 or not colon or "@" in user or "[" in user:
        return rest
    return f"{user}:{HIDDEN}{rest[end:]}"


def _without_value(found: re.Match[str]) -> str:
    name = unquote_plus(found["name"])
    secret = names_secret(name) or not _SIGNATURES.isdisjoint(_words_of(name))
    return f"{found['name']}{found['equals']}{HIDDEN if secret and found['value'] else found['value']}"
