"""Secrets in texts that other programs wrote: keys of known services, and values whose names say what they are.

`rbank_es.events.redaction` knows the secrets of this environment; a transcript has those of others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rbank_es.events.redaction import REDACTED, redact

# Each pattern with marks, of which a text that it fits has one: the search for a mark is a hundred times faster.
_PATTERNS: Sequence[tuple[tuple[str, ...], re.Pattern[str]]] = (
    (("sk-",), re.compile(r"\bsk-[-_A-Za-z0-9]{8,}")),
    (("_live_", "_test_"), re.compile(r"\b[sprw][kh]\w{0,3}_(?:live|test)_[A-Za-z0-9]{8,}")),
    (("gh", "github_pat_"), re.compile(r"\b(?:gh[opsur]_|github_pat_)[A-Za-z0-9_]{7,}")),
    (("AKIA", "ASIA"), re.compile(r"\bA(?:KIA|SIA)[A-Z0-9]{12,}")),
    (("xox", "xapp-"), re.compile(r"\b(?:xox[a-z]|xapp)-[-A-Za-z0-9]{8,}")),
    (("AIza",), re.compile(r"\bAIza[-_A-Za-z0-9]{16,}")),
    (
        ("glpat-", "hf_", "gsk_", "xai-", "npm_", "pypi-"),
        re.compile(r"\b(?:glpat-|hf_|gsk_|xai-|npm_|pypi-)[-_A-Za-z0-9]{16,}"),
    ),
    (("eyJ",), re.compile(r"\beyJ[-_A-Za-z0-9]{8,}\.[-_A-Za-z0-9]{8,}(?:\.[-_A-Za-z0-9]*)?")),
    (
        ("PRIVATE KEY",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    ),
    (("earer ", "EARER "), re.compile(r"(?i)(?<=bearer )\s*[-._~+/=A-Za-z0-9]{8,}")),
    (("asic ", "ASIC "), re.compile(r"(?i)(?<=authorization: basic )\s*[A-Za-z0-9+/=]{6,}")),
    (("://",), re.compile(r"(?<=://)[^\s/:@\"']*:[^\s/@\"']+(?=@)")),
)
_NAMED_MARKS = (
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "CREDENTIAL",
    "key",
    "token",
    "secret",
    "pass",
    "Key",
    "Token",
    "Secret",
)
_NAMED = re.compile(
    r"""((?:\b|_)(?:[A-Z0-9_]*(?:_KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)[A-Z0-9_]*\s*=
        |(?:api_?key|access_?token|auth_?token|client_?secret|password|passwd|secret_?key)\b\\?["']?\s*[:=])
      \s*\\?["']?)((?!\$|\[key\])[^\s"'\\&;,)}<]{4,})""",
    re.VERBOSE | re.IGNORECASE,
)


def redact_likely(text: str, hidden: tuple[str, ...] = ()) -> str:
    """Return a text with `REDACTED` in place of what is likely a secret, and of each hidden value.

    Of `NAME_KEY=value`, of a header and of an address with a password, the name stays.
    """
    for marks, pattern in _PATTERNS:
        if any(mark in text for mark in marks):
            text = pattern.sub(REDACTED, text)
    if any(mark in text for mark in _NAMED_MARKS):
        text = _NAMED.sub(lambda found: found[1] + REDACTED, text)
    return redact(text, hidden) if hidden else text
