"""The messages of errors and of exit statuses, in words for people and for the log."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

from rbank_es.errors import RBankError

_FOREIGN = re.compile(
    r"""For\ further\ information\ visit\ \S+     # Pydantic's
    | https?://[^\s'"]+                             # documents of others; our own messages name the address
    | \[Errno\ -?\d+\] | \[type=[^\]]*\] | \(_ssl\.c:\d+\)
    | <[^<>]*\ at\ 0x[0-9a-f]+> | <class\ '[^']*'>
    | \b(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?:Error|Exception|Warning)\b:?
    | \b[A-Z][a-z]\w*(?:Error|Exception)\b:""",
    re.VERBOSE,
)
_TRACEBACK = "Traceback (most recent call last)"


def foreign_words(error: BaseException) -> str:
    """Return what an error of another package says, in one line, as people read it.

    Without web addresses, names of classes and modules, numbers of the system, and the stack behind the first line. The
    kind in Python is named for a defect of a program (`KeyError`, `ZeroDivisionError`) and for an error without words.
    """
    kinds = (each for each in type(error).__mro__ if each.__module__ == "builtins")
    kind = next((each.__name__ for each in kinds if each not in (Exception, BaseException, object)), "an error")
    words = " ".join(_FOREIGN.sub(" ", str(error).split(_TRACEBACK)[0]).split()).strip(" :;,")
    # "3" is a KeyError, which says little without its kind; what comes from outside says enough.
    speaks = kind == "an error" or isinstance(error, ValueError | OSError | RuntimeError)
    return words if words and speaks else f"{kind}: {words}".rstrip(": ")


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
