"""The remote engine: the SPARQL 1.1 Protocol (https://www.w3.org/TR/sparql11-protocol/) over httpx.

Whatever an endpoint does, a call ends in time, and takes no more memory than its caps. It never returns a part as the
whole answer, and connects only to that endpoint.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

import msgspec

from rbank_es import __version__, limits
from rbank_es.errors import BadInput, QueryFailed
from rbank_es.events.event_envelope import Timer
from rbank_es.sparql.engines.endpoint import AGAIN, CHEAPER, Address, failure_of, readable, shown
from rbank_es.sparql.engines.query_engine import ALL_GRAPHS, CappedRows, Caps, Dataset, QueryEngine
from rbank_es.sparql.engines.response_bodies import AnswerBody, accepted
from rbank_es.sparql.engines.retry import Calendar, Deadline, Sleep, Wire, retry_after_s, utc_now, wait_s
from rbank_es.sparql.results import Answer, Form, NotResults, ResultContent
from rbank_es.system.error_messages import foreign_words
from rbank_es.system.forks import told_of_forks

if TYPE_CHECKING:
    import httpx


# Bytes that are decompressed at a time: a small body can stand for an endless one.
_PIECE_BYTES = 64 * limits.KIB
# Queries up to this length go to an endpoint by GET, which caches well; longer ones by POST.
_GET_CHARS = 1_800


class _TurnedAway(Exception):
    """A failed try that a retry may mend: the error without one, and the seconds that the endpoint asks to wait."""

    def __init__(self, failure: QueryFailed, asked_s: float | None = None) -> None:
        self.failure, self.asked_s = failure, asked_s
        super().__init__(failure.message)


class _Redirected(Exception):
    """A redirect by the endpoint."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.location: str = response.headers["location"]
        super().__init__(self.location)


class RemoteEngine(QueryEngine):
    """An engine that sends queries to one endpoint, one at a time; a query's time begins when its turn has come.

    GET for short queries, else POST. A call that was turned away (429, 502, 503, 504) or could not connect is tried
    again up to `ENDPOINT_RETRIES` times, after what the endpoint asks for or 1, 2, 4 s; never after it began to work.
    Redirects are followed within the same scheme, host and port. No cookie is kept, no proxy and no environment used.
    """

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        transport: httpx.BaseTransport | None = None,
        sleep: Sleep = time.sleep,
        clock: Timer = time.monotonic,
        calendar: Calendar = utc_now,
    ) -> None:
        """Make an engine for the endpoint at `url`, without asking it anything.

        Args:
            url: http or https; credentials in it are sent to the endpoint, and never shown.
            contact: an address for the endpoint's operators, named in the user agent.
            transport, sleep, clock, calendar: real unless a test gives others.

        Raises:
            BadInput: `url` is no http or https URL, or `contact` can't stand in a header.
        """
        self.address = Address(url)
        if not (contact.isascii() and contact.isprintable()):
            raise BadInput(f"{contact!r} can't stand in a header; give a mail address or a URL")
        self.agent = f"rbank-es/{__version__}" + (f" ({contact})" if contact else "")
        self._given_transport = transport
        self._sleep, self._clock, self._calendar = sleep, clock, calendar
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._wire = Wire()
        told_of_forks.add(self)

    def run(self, query: str, form: Form, caps: Caps, dataset: Dataset = ALL_GRAPHS) -> Answer:
        """Return the answer within the caps. Raises `QueryFailed`, and is ready for the next query then."""
        with self._lock:
            began = time.perf_counter()
            deadline = Deadline(caps, self._clock)
            timer = self._wire.cutting_off(deadline)
            try:
                content, cut = self._call(query, form, caps, deadline)
            finally:
                timer.cancel()
            duration_s = time.perf_counter() - began
        answer = _kept(content, form, caps)
        truncated = answer.truncated or ("bytes" if cut else "")
        return msgspec.structs.replace(answer, truncated=truncated, duration_s=round(duration_s, 6))

    def close(self) -> None:
        """Close the connection, when the query that uses it is done. The next query opens another."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                client.close()

    def forget_parent(self) -> None:
        """Drop the lock and the connection in a forked child: they belong to the parent."""
        self._lock, self._wire, self._client = threading.Lock(), Wire(), None

    # ---------------------------------------------------------------- tries

    def _call(self, query: str, form: Form, caps: Caps, deadline: Deadline) -> tuple[ResultContent, bool]:
        """Return the content, and whether our cap of bytes truncated it, after as many tries as allowed."""
        tries = 0
        while True:
            try:
                return self._try(query, form, caps, deadline)
            except _TurnedAway as away:
                tries += 1
                pause_s = wait_s(tries, away.asked_s, deadline.left_s)
                if pause_s is None:
                    raise away.failure from None
                self._sleep(pause_s)

    def _try(self, query: str, form: Form, caps: Caps, deadline: Deadline) -> tuple[ResultContent, bool]:
        request = self._request(query, form, deadline)
        for _ in range(limits.ENDPOINT_REDIRECTS + 1):
            try:
                response = self._sent(request, deadline)
            except _Redirected as redirected:
                request = self._followed(request, redirected, deadline)
                continue
            try:
                return self._content(response, form, caps, deadline)
            finally:
                response.close()
        message = f"the endpoint redirected more than {limits.ENDPOINT_REDIRECTS} times"
        raise QueryFailed("redirected", message, "have the endpoint's URL checked")

    # ---------------------------------------------------------------- requests

    def _request(self, query: str, form: Form, deadline: Deadline) -> httpx.Request:
        accept = {"Accept": accepted(form)}
        if len(quote_plus(query, errors="replace")) <= _GET_CHARS:
            url = self.address.url.copy_merge_params({"query": query})
            return self._built("GET", url, deadline, accept)
        form_body = b"query=" + quote_plus(query, errors="replace").encode()
        headers = {**accept, "Content-Type": "application/x-www-form-urlencoded"}
        return self._built("POST", self.address.url, deadline, headers, form_body)

    def _built(
        self, method: str, url: httpx.URL, deadline: Deadline, headers: dict[str, str], content: bytes | None = None
    ) -> httpx.Request:
        import httpx

        left_s = max(deadline.left_s, 0.001)
        timeout = httpx.Timeout(left_s, connect=min(limits.ENDPOINT_CONNECT_S, left_s))
        extensions = {"trace": self._wire.trace}
        return self._opened().build_request(
            method, url, content=content, headers=headers, timeout=timeout, extensions=extensions
        )

    def _opened(self) -> httpx.Client:
        import httpx

        if self._client is None:
            self._client = httpx.Client(
                transport=self._given_transport,
                headers={"User-Agent": self.agent, "Accept-Encoding": "gzip"},
                # A cookie, a proxy or a variable of the environment would change who is asked, or as whom.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                limits=httpx.Limits(max_connections=1),
                # Runs before httpx reads the location, because it fails at one that is no URL.
                event_hooks={"response": [_tell_redirect]},
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    def _sent(self, request: httpx.Request, deadline: Deadline) -> httpx.Response:
        import httpx

        if deadline.passed:
            raise _timeout(deadline)
        try:
            response = self._opened().send(request, stream=True)
            # An endpoint may think as long as there is time before the first piece, but not between two.
            request.extensions["timeout"]["read"] = min(limits.ENDPOINT_READ_S, max(deadline.left_s, 0.001))
            return response
        except httpx.ReadTimeout:
            raise _timeout(deadline) from None
        except httpx.HTTPError as error:
            if deadline.passed:
                raise _timeout(deadline) from None
            raise _TurnedAway(self._unreachable(error)) from None

    def _followed(self, request: httpx.Request, redirected: _Redirected, deadline: Deadline) -> httpx.Request:
        """Return the request that a redirect asks for. Raises `QueryFailed` where it leads elsewhere."""
        import httpx

        try:
            target = request.url.join(redirected.location)
            same, place = self.address.is_same_place(target), shown(target)
        except (httpx.InvalidURL, ValueError):
            raise _elsewhere("what is no URL") from None
        if not same:
            raise _elsewhere(place)
        target = target.copy_with(userinfo=self.address.url.userinfo)
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        # Credentials are sent again, because the target has the same scheme, host and port.
        if redirected.status == 303:
            return self._built("GET", target, deadline, {"Accept": headers["Accept"]})
        return self._built(request.method, target, deadline, headers, request.content or None)

    def _unreachable(self, error: Exception) -> QueryFailed:
        reason = self.address.without_secrets(readable(foreign_words(error).encode("utf-8", "replace")))
        message = f"the endpoint {self.address.shown} can't be reached ({reason})"
        return QueryFailed("unreachable", message, "try again later, or go on without this endpoint")

    # ---------------------------------------------------------------- responses

    def _content(
        self, response: httpx.Response, form: Form, caps: Caps, deadline: Deadline
    ) -> tuple[ResultContent, bool]:
        import httpx

        if not response.is_success:
            raise self._failure(response, deadline)
        body = AnswerBody(form, response.headers.get("content-type", ""), self.address.shown)
        try:
            cut = _read(body, response, caps, deadline)
            if cut:
                return _begun(body, caps), cut == "bytes"
            if _is_partial(response):
                raise NotResults("it says so")
            return body.finish(), False
        except NotResults as error:
            raise _no_results(error) from None
        except httpx.ReadTimeout:
            raise _timeout(deadline) from None
        except httpx.HTTPError:
            if deadline.passed:
                raise _timeout(deadline) from None
            raise _no_results(NotResults("the connection was closed")) from None

    def _failure(self, response: httpx.Response, deadline: Deadline) -> Exception:
        """Return the error for a status that is no success."""
        status = response.status_code
        asked_s = retry_after_s(response.headers, self._calendar())
        message = self.address.without_secrets(_message(response, deadline))
        failure = failure_of(status, message, asked_s)
        return _TurnedAway(failure, asked_s) if status in AGAIN else failure


def _tell_redirect(response: httpx.Response) -> None:
    if response.has_redirect_location:
        raise _Redirected(response)


def _read(body: AnswerBody, response: httpx.Response, caps: Caps, deadline: Deadline) -> str:
    """Feed a body until it ends, or until it has more than the caps allow: `rows` or `bytes` then."""
    left_bytes = caps.size_bytes
    for piece in _pieces(response, deadline):
        body.feed(piece[:left_bytes])
        left_bytes -= len(piece)
        if left_bytes < 0:
            return "bytes"
        if body.whole_rows > caps.rows:
            return "rows"
    if deadline.passed:
        raise _timeout(deadline)
    return ""


def _begun(body: AnswerBody, caps: Caps) -> ResultContent:
    """Return the rows before a cut of ours. Raises `QueryFailed` where there is none: that is not an empty answer."""
    content = body.part()
    if content.rows:
        return content
    message = f"the endpoint sent more than {caps.size_bytes:,} bytes and not one whole row"
    hint = "select less: no long values, fewer columns; if a small query fails too, have the endpoint's URL checked"
    raise QueryFailed("too_large", message, hint)


def _pieces(response: httpx.Response, deadline: Deadline) -> Iterator[bytes]:
    """Yield the decompressed body in pieces of a bounded size. Raises `NotResults` for broken compression."""
    # Not by httpx, which decompresses a whole piece of input at once: 1 MiB of it can hold 1 GiB.
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip", ""):
        raise NotResults(f"its content coding {coding[: limits.GIVEN_WORD_CHARS]!r} was not asked for", complete=True)
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in coding else None
    for raw in response.iter_raw():
        if deadline.passed:
            raise _timeout(deadline)
        yield from _inflated(inflate, raw) if inflate else (raw,)
    if inflate and not inflate.eof:
        raise NotResults("its compressed data was cut")


def _inflated(inflate: zlib._Decompress, raw: bytes) -> Iterator[bytes]:
    while raw:
        try:
            piece = inflate.decompress(raw, _PIECE_BYTES)
        except zlib.error:
            raise NotResults("its compressed data is broken") from None
        yield piece
        raw = inflate.unconsumed_tail


def _message(response: httpx.Response, deadline: Deadline) -> str:
    """Return the endpoint's own message about an error, as far as it can be read."""
    import httpx

    data = b""
    try:
        for piece in _pieces(response, deadline):
            data += piece
            if len(data) >= limits.ENDPOINT_ERROR_BYTES:
                break
    except (httpx.HTTPError, NotResults, QueryFailed):
        pass
    return readable(data[: limits.ENDPOINT_ERROR_BYTES])


def _is_partial(response: httpx.Response) -> bool:
    """Return whether the endpoint stopped at its own time limit: Virtuoso reports that in a header of a 200."""
    return bool(response.headers.get("x-sql-state", "").startswith("S1T"))


def _kept(content: ResultContent, form: Form, caps: Caps) -> Answer:
    if content.boolean is not None:
        return Answer(form=form, boolean=content.boolean)
    keeper = CappedRows(content.variables, caps)
    for row in content.rows:
        if not keeper.add(row):
            break
    return keeper.answer(form)


def _timeout(deadline: Deadline) -> QueryFailed:
    if deadline.passed:
        message = f"the endpoint gave no whole answer within {deadline.timeout_s:g} s"
    else:
        message = f"the endpoint began to answer, then sent nothing for {limits.ENDPOINT_READ_S:g} s"
    return QueryFailed("timeout", message, CHEAPER)


def _elsewhere(place: str) -> QueryFailed:
    message = f"the endpoint redirects to {place[: limits.ENDPOINT_MESSAGE_CHARS]}; nothing was sent there"
    return QueryFailed("redirected", message, "if that is the endpoint that is meant, give its URL instead")


def _no_results(error: NotResults) -> QueryFailed:
    reason = readable(error.reason.encode("utf-8", "replace"))
    if error.complete:
        message = f"what the endpoint sent is no answer to a query ({reason})"
        return QueryFailed("not_sparql", message, "have the endpoint's URL checked; it may lead to a web page")
    message = f"the endpoint stopped amid its answer, as at its own time limit; nothing of it was used ({reason})"
    return QueryFailed("cut_answer", message, CHEAPER)
