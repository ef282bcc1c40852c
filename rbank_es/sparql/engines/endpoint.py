"""An endpoint's address without its secrets, and its refusals as errors with a hint at the next step."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rbank_es import limits
from rbank_es.errors import BadInput, QueryFailed
from rbank_es.system.text_cuts import cut

if TYPE_CHECKING:
    import httpx


_DEFAULT_PORTS = {"http": 80, "https": 443}


class Address:
    """An endpoint's URL."""

    def __init__(self, url: str) -> None:
        """Parse a URL. Raises `BadInput` unless it is an http or https URL."""
        import httpx

        try:
            port = urlsplit(url).port  # reports a broken host or port; httpx doesn't
            self.url = httpx.URL(url).copy_with(fragment=None)
            self.host = self.url.host
        except (httpx.InvalidURL, ValueError):
            raise BadInput("the endpoint's address is no URL; give one like https://example.org/sparql") from None
        if self.url.scheme not in _DEFAULT_PORTS or not self.host:
            raise BadInput(f"the endpoint {shown(self.url)!r} can't be asked; give a URL with http:// or https://")
        if port == 0:
            raise BadInput(f"the endpoint {shown(self.url)!r} can't be asked; a port is a number from 1 to 65535")
        self.shown = shown(self.url)

    def is_same_place(self, url: httpx.URL) -> bool:
        """Return whether another URL has the same scheme, host and port."""
        return _place(url) == _place(self.url)

    def without_secrets(self, text: str) -> str:
        """Return a text with the URL's credentials redacted."""
        for secret in {self.url.password, self.url.query.decode("ascii", "replace")}:
            if secret:
                text = text.replace(secret, "…")
        return text


def shown(url: httpx.URL) -> str:
    """Return a URL without credentials and without its query, which may hold a key."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def _place(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme)


AGAIN = frozenset((429, 502, 503, 504))
"""Statuses after which the same request may succeed a little later."""

CHEAPER = "make the query cheaper: name classes and properties, filter early, a smaller LIMIT, no unbound predicate"

FEWER = "go on with what you have; later try the same query once more; ask fewer and larger queries, not one by one"
"""An agent can't wait, but it can do something else first."""

_NO_TEXT = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
# Not `<http://…>`: an IRI in a message is no markup.
_TAG = re.compile(r"<(?![a-zA-Z][\w+.-]*:)[a-zA-Z/!?][^<>]*>")
# Control characters and marks of direction: a terminal would obey them.
_UNSHOWABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028-\u202e\u2066-\u2069]+")

_WAYS: dict[int, tuple[str, str, str]] = {
    400: ("bad_query", "the endpoint can't run the query", "correct the query; try a smaller one first"),
    401: ("endpoint_error", "the endpoint wants credentials", "this endpoint can't be used without them; try another"),
    403: ("endpoint_error", "the endpoint forbids it", "try another query, or another endpoint"),
    404: ("endpoint_error", "there is nothing at the endpoint's address", "have the endpoint's URL checked"),
    406: ("endpoint_error", "the endpoint can't answer in a form that is safe to read", "try another form of query"),
    413: ("bad_query", "the query is too long for the endpoint", "shorten it, or ask in several steps"),
    414: ("bad_query", "the query is too long for the endpoint", "shorten it, or ask in several steps"),
    429: ("too_many_requests", "the endpoint takes no more queries for now", FEWER),
    500: ("endpoint_error", "the endpoint failed at the query", CHEAPER),
    504: ("endpoint_error", "the endpoint ran out of time", CHEAPER),
}
_OTHERWISE = ("endpoint_error", "the endpoint gives no answer", "try again later, or another query")


def failure_of(status: int, message: str, asked_s: float | None = None) -> QueryFailed:
    """Return the error for a status that is no success. `asked_s`: seconds that the endpoint asks to wait."""
    code, what, hint = _WAYS.get(status, _OTHERWISE)
    wait = f"; it asks to wait {asked_s:.0f} s" if asked_s is not None else ""
    return QueryFailed(code, f"{what} (status {status}{wait})" + (f": {message}" if message else ""), hint)


def readable(data: bytes) -> str:
    """Return the text of a message without markup and control characters, truncated to `ENDPOINT_MESSAGE_CHARS`."""
    text = _TAG.sub(" ", _NO_TEXT.sub(" ", data.decode("utf-8", "replace")))
    text = _UNSHOWABLE.sub(" ", html.unescape(text)).strip()
    return cut(text, limits.ENDPOINT_MESSAGE_CHARS)
