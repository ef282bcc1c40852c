"""The messages of errors and of exit statuses, in words for people and for the log."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from rbank_es.errors import RBankError


def message_of(error: BaseException) -> str:
    """Return the message of an error, after its type if not one of this project; of a group, each message once."""
    return "; ".join(dict.fromkeys(_messages(error)))


def _messages(error: BaseException) -> Iterator[str]:
    # An error of Python's own says little without its kind: "3" is a KeyError.
    words, kind = str(error), type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _messages(each)
    elif isinstance(error, RBankError) and words:
        yield words
    else:
        yield f"{kind}: {words}" if words else kind


def status_in_words(status: int) -> str:
    """Return the exit status of a process in words: the name of the signal that ended it, if one did."""
    return signal.Signals(-status).name if -status in set(signal.Signals) else f"exit code {status}"
