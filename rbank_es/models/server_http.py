"""HTTP to a model's server over httpx: a client that goes nowhere else, bounded answers, and failures with a code."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rbank_es import __version__, limits
from rbank_es.models.model_call import RetryableFailure, failed, said_by
from rbank_es.system.error_messages import foreign_words

if TYPE_CHECKING:
    import httpx


def server_client(timeout_s: float, key: str | None) -> httpx.Client:
    """Return a client for one server; nothing is sent. `timeout_s` bounds each read, not their sum."""
    import httpx

    # Refuse compression: a few bytes could expand to gigabytes.
    headers = {"User-Agent": f"rbank-es/{__version__}", "Content-Type": "application/json"}
    headers["Accept-Encoding"] = "identity"
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.Client(
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=min(limits.LM_CONNECT_S, timeout_s)),
        # The system's certificates, which companies add to; a redirect or a proxy would take words and key elsewhere.
        verify=ssl.create_default_context(),
        follow_redirects=False,
        trust_env=False,
    )


@contextmanager
def connection_failures() -> Iterator[None]:
    """Raise what breaks a connection as `LmFailed`, or `RetryableFailure` where another try may succeed."""
    import httpx

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        unreachable = failed("unreachable", f"the model's server can't be reached{said_by(foreign_words(error))}")
        raise (RetryableFailure(unreachable) if isinstance(error, httpx.ConnectError) else unreachable) from error
    except httpx.TimeoutException as error:
        raise failed("timeout", "the model's server fell silent") from error
    except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
        broken = failed("bad_response", f"the answer broke off{said_by(foreign_words(error))}")
        raise RetryableFailure(broken) from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise failed("unreachable", f"the connection failed{said_by(foreign_words(error))}") from error
