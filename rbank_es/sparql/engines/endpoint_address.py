"""The address of an endpoint: what may be asked, and how it is shown without what is secret in it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rbank_es.errors import BadInput

if TYPE_CHECKING:
    import httpx

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Address:
    """An endpoint's URL."""

    def __init__(self, url: str) -> None:
        """Raises `BadInput` for what is no http or https URL."""
        import httpx

        try:
            port = urlsplit(url).port  # knows a broken host or port where httpx takes it as it is
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
        """Whether another URL has the same scheme, host and port."""
        return _place(url) == _place(self.url)

    def without_secrets(self, text: str) -> str:
        """A text in which the credentials of the URL don't stand."""
        for secret in {self.url.password, self.url.query.decode("ascii", "replace")}:
            if secret:
                text = text.replace(secret, "…")
        return text


def shown(url: httpx.URL) -> str:
    """A URL without credentials and without its query, which may hold a key."""
    return str(url.copy_with(username=None, password=None, query=None, fragment=None))


def _place(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or _DEFAULT_PORTS.get(url.scheme)
