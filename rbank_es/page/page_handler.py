"""The handler of requests to one served bank: who may ask, and what the response is. Without sockets and threads.

A browser is let in by the address that the command prints. Its token of 192 random bits is exchanged for a cookie at
once, because an address ends up in histories, bookmarks and pictures of a screen.

Browsers send a cookie to every port of its host, and count all ports of a host as one site. So whoever listens at
another port of this machine would be sent the cookie when it is opened. What separates them is the path: the page lies
in a place with a random name, and the cookie is sent below that place alone. Whoever would be sent it must know the
place; whoever knows the place, which the address bar shows, still needs the cookie.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any

from rbank_es.answers import Face
from rbank_es.bank import Bank
from rbank_es.errors import (
    AmbiguousId,
    BadInput,
    BadPoint,
    BadPolicy,
    BadSearch,
    BankNotFound,
    LimitExceeded,
    LogCorruption,
    LogError,
    NotInBank,
    ProjectionError,
    ProjectionTimeout,
    RBankError,
    UnknownEvent,
)
from rbank_es.limits import page_limits
from rbank_es.page.app_script import app_page, page_policy
from rbank_es.page.escaped_html import element
from rbank_es.page.http_request import PageRequest, Refused
from rbank_es.page.http_response import PageResponse, json_response, refusal
from rbank_es.page.page_answer import PageAnswers
from rbank_es.page.trace_receiver import PATHS, TraceReceiver
from rbank_es.system.command_lines import whole_command

ROOTS: Mapping[str, Face] = {"api/v1/": "api", "page/": "page"}
"""Where answers lie: whole for programs; for the page, with texts that are cut until somebody opens them."""

LIVE = "api/v1/live"
COOKIE = "rbank-es"

# Other programs of this host may have set cookies of any form, and of this name too: each with the name is tried.
_COOKIES = re.compile(rf"(?:^|;) *{COOKIE}=([^;]*)")


class PageHandler:
    """The responses about a bank that is served at a port of this machine, to those who may ask."""

    def __init__(
        self,
        bank: Bank,
        port: int,
        *,
        prompts: bool = True,
        argument: str = "",
        receiver: TraceReceiver | None = None,
    ) -> None:
        """Serve a bank at a port. `argument` is the bank as the page's commands name it, by default its name.

        `receiver` takes what agents send, where they may.
        """
        self.bank, self.port, self.receiver = bank, port, receiver
        self._answers = {
            root: PageAnswers(bank, face, prompts=prompts, argument=argument) for root, face in ROOTS.items()
        }
        self._argument = argument or bank.name
        self._token = secrets.token_urlsafe(page_limits.TOKEN_BYTES)
        self._tickets: set[str] = set()
        self._place = f"/{secrets.token_urlsafe(page_limits.TOKEN_BYTES)}/"
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    @property
    def address(self) -> str:
        """The address that lets a browser in."""
        return f"http://{self._hosts[0]}/?token={self._token}"

    def address_once(self) -> str:
        """Return an address that lets one browser in, once: other users see it in the list of processes."""
        ticket = secrets.token_urlsafe(page_limits.TOKEN_BYTES)
        self._tickets.add(ticket)
        return f"http://{self._hosts[0]}/?token={ticket}"

    @property
    def takes(self) -> tuple[str, ...]:
        """The paths that take what is sent to them."""
        return tuple(PATHS) if self.receiver is not None else ()

    def check_sender(self, request: PageRequest) -> TraceReceiver:
        """Return the receiver of a request whose body may be read. Raises `Refused`."""
        self._check_origin(request)
        if self.receiver is None:
            raise Refused(404, "no traces are taken here; start rbank-es serve with --otlp")
        self.receiver.check(request)
        return self.receiver

    def respond(self, request: PageRequest) -> PageResponse:
        """Return the response to a request; errors name no file."""
        try:
            self._check_origin(request)
            if request.path == "/" and request.query.startswith("token="):
                # Before the cookie is checked, because the response to this request sets it.
                return self._let_in(request.query.removeprefix("token="))
            self._check_access(request)
            return self._route(request.path.removeprefix(self._place), request.parameters())
        except Refused as refused:
            return refusal(refused.status, str(refused))
        except RBankError as error:
            return refusal(*reason_of(error, self._argument))

    def _check_origin(self, request: PageRequest) -> None:
        host = request.headers.get("host", "")
        if host not in self._hosts:
            raise Refused(421, "this server answers to 127.0.0.1 and localhost with its port, and to no other name")
        if request.headers.get("origin", f"http://{host}") != f"http://{host}":
            raise Refused(403, "a page of another site asked")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "a page of another site asked")

    def _let_in(self, token: str) -> PageResponse:
        if not (self._is_token(token) or self._spend(token)):
            raise Refused(401, "this is not the address that rbank-es serve printed")
        cookie = f"{COOKIE}={self._token}; Path={self._place}; HttpOnly; SameSite=Strict"
        return PageResponse(status=303, headers=(("Location", self._place), ("Set-Cookie", cookie)))

    def _spend(self, ticket: str) -> bool:
        known = next((each for each in self._tickets if hmac.compare_digest(each.encode(), ticket.encode())), None)
        self._tickets.discard(known or "")
        return known is not None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _check_access(self, request: PageRequest) -> None:
        place = request.path[: len(self._place)]
        is_here = hmac.compare_digest(place.encode(), self._place.encode())
        if not (is_here and any(map(self._is_token, _COOKIES.findall(request.headers.get("cookie", ""))))):
            raise Refused(401, "open the address that rbank-es serve printed: it has the token")

    def _route(self, path: str, parameters: Mapping[str, Any]) -> PageResponse:
        if not path:
            html, policy = served_page(self.bank)
            return PageResponse(body=html.encode(), media="text/html", policy=policy)
        if path == LIVE:
            return PageResponse(media="text/event-stream", live_after=_position(parameters.get("after")))
        for root, answers in self._answers.items():
            if path.startswith(root):
                return json_response(answers.ask(path.removeprefix(root), parameters))
        raise Refused(404, "there is no such page")


_TOLD = (BadInput, LimitExceeded, BadSearch, BadPolicy, BadPoint, AmbiguousId)
"""Errors of a question itself, whose messages name nothing but what it asked."""


def _position(given: Any) -> int:
    if not (
        isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= page_limits.POSITION_DIGITS
    ):
        raise Refused(400, "after is a position, from 0 on")
    return int(given)


def reason_of(error: RBankError, argument: str) -> tuple[int, str]:
    """Return the status and the reason of a request that an error ended, with commands that name the bank so.

    Messages that may name files are left out.
    """
    match error:
        case NotInBank():
            return 404, str(error)
        case BankNotFound():
            return 503, "the bank is no longer in its place"
        # By exact class, because the messages of other subclasses may name files.
        case BadInput() if type(error) in _TOLD:
            return 400, str(error)
        case LogCorruption():
            return 503, f"the bank's log is damaged; where, says: {whole_command('verify', [argument])}"
        case UnknownEvent():
            return 503, "the bank's log has events that this release doesn't know; install the newest one"
        case LogError():
            return 503, "the bank can't be read at present: the system refused access"
        case ProjectionTimeout():
            return 503, str(error)
        case ProjectionError():
            again = whole_command("project", [argument], "--rebuild")
            return 503, f"the read models can't be used; make them again with: {again}"
    return 503, "the bank can't answer this"


SOURCE = "'self'"


def served_page(bank: Bank) -> tuple[str, str]:
    """Return the HTML of the page of a bank, and the policy under which a browser shows it."""
    without_script = element("noscript", "This page needs JavaScript; rbank-es dashboard writes one that has tables.")
    body = element("main", element("p", "Loading…"), without_script)
    # Only the header may name who frames the page.
    return app_page(bank.name, body, connect=SOURCE), f"{page_policy(SOURCE)}; frame-ancestors 'none'"
