"""Requests, parsed strictly from their bytes: whatever is no plain GET or HEAD is refused by a code. A path that takes
what is sent to it may be asked with POST, and has a body.

Whoever sends a request is not known before it is parsed. So its head is bounded, and parsing it takes one pass;
parameters are decoded only when they are asked for, which is after the sender was let in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl

from msgspec import Struct

from rbank_es.errors import BadInput
from rbank_es.limits import page_limits

WHERE = "where"
METHODS = ("GET", "HEAD")
END = b"\r\n\r\n"

_LINE = re.compile(r"([A-Z]{1,20}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SINGLE = ("host", "origin", "cookie", "sec-fetch-site", "authorization", "transfer-encoding", "expect") + tuple(
    f"content-{name}" for name in ("length", "type", "encoding")
)
"""Headers that decide whether a request is answered: twice in one request, each could mean another thing to others."""


class Refused(BadInput):
    """A request that is not answered: the HTTP status, and the reason, which names no file."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class PageRequest(Struct, frozen=True):
    """A request: its path, its query as it was sent, and its headers, whose names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    def parameters(self) -> dict[str, str | tuple[str, ...]]:
        """Return the decoded parameters of the query; `where`, which may be given several times, as a list.

        Raises `Refused`.
        """
        most = page_limits.REQUEST_PARAMETERS
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, errors="strict", max_num_fields=most)
        except ValueError:  # also of bytes that are no UTF-8
            raise Refused(400, "the parameters of the address can't be read") from None
        where = tuple(value for name, value in pairs if name == WHERE)
        found: dict[str, str | tuple[str, ...]] = {name: value for name, value in pairs if name != WHERE}
        if len(found) + len(where) < len(pairs):
            raise Refused(400, "a parameter of the address is given twice")
        return found | ({WHERE: where} if where else {})


def parse_request(head: bytes, takes: Collection[str] = ()) -> PageRequest:
    """Return the request whose line and headers these are, up to the empty line. Raises `Refused`.

    `takes` are the paths that take what is sent.
    """
    line, _, rest = head.partition(b"\r\n")
    if len(line) > page_limits.REQUEST_LINE_BYTES:
        raise Refused(414, "the address is too long")
    found = _LINE.fullmatch(line.decode("latin-1"))
    if found is None:
        raise Refused(400, "this is no request of HTTP 1.1 for a path")
    method, target = found.groups()
    # latin-1 has a character for every byte, so that only the checks below refuse a header.
    headers = _headers(rest.removesuffix(END).decode("latin-1"))
    path, _, query = target.partition("?")
    if method == "POST" and path in takes:
        return PageRequest(method, path, query, headers)
    if method not in METHODS:
        raise Refused(405, "only GET and HEAD are answered: this server changes nothing")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise Refused(400, "a request has no body here")
    return PageRequest(method, path, query, headers)


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = text.split("\r\n") if text else []
    if len(lines) > page_limits.REQUEST_HEADERS:
        raise Refused(431, "there are too many headers")
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or not value.strip(" \t").replace("\t", " ").isprintable():
            raise Refused(400, "a header can't be read")
        if name.lower() in found and name.lower() in _SINGLE:
            raise Refused(400, f"the header {name.lower()} is given twice")
        found[name.lower()] = value.strip(" \t")
    return found
