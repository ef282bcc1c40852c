"""Secrets in texts that other programs wrote: keys of known services, and values whose names say what they are.

`rbank_es.events.redaction` knows the secrets of this environment; a transcript has those of others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rbank_es.events.redaction import REDACTED, redact

# Each with marks, of which a text that it fits has one: the search for a mark is a hundred times faster.
_PATTERNS: Sequence[tuple[tuple[str, ...], str]] = (
    (("sk-",), r"\bsk-[-_A-Za-z0-9]{8,}"),
    (("_live_", "_test_"), r"\b[spr]k_(?:live|test)_[A-Za-z0-9]{8,}"),
    (("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"), r"\b(?:gh[opsur]_|github_pat_)[A-Za-z0-9_]{7,}"),
    (("AKIA", "ASIA"), r"\bA(?:KIA|SIA)[A-Z0-9]{12,}"),
    (("xox", "xapp-"), r"\b(?:xox[a-z]|xapp)-[-A-Za-z0-9]{8,}"),
    (("AIza",), r"\bAIza[-_A-Za-z0-9]{16,}"),
    (("glpat-", "hf_", "gsk_", "xai-", "npm_"), r"\b(?:glpat-|hf_|gsk_|xai-|npm_)[-_A-Za-z0-9]{16,}"),
    (("eyJ",), r"\beyJ[-_A-Za-z0-9]{8,}\.[-_A-Za-z0-9]{8,}(?:\.[-_A-Za-z0-9]*)?"),
    (("PRIVATE KEY",), r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    (("earer ", "EARER "), r"(?i)(?<=bearer )\s*[-._~+/=A-Za-z0-9]{8,}"),
    (("asic ", "ASIC "), r"(?i)(?<=authorization: basic )\s*[A-Za-z0-9+/=]{6,}"),
    # Behind the word alone only what no word looks like: base64 changes between small, large and digits.
    (("asic ",), r"(?<=\b[Bb]asic )(?=(?:\w*?[a-z][A-Z0-9]){2})[A-Za-z0-9+/]{12,}={0,2}"),
    (("://",), r"(?<=://)[^\s/:@\"']*:[^\s/@\"']+(?=@)"),
)
_MARKED = tuple((mark, re.compile(pattern)) for marks, pattern in _PATTERNS for mark in marks)

_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL")
_SMALL_NAMES = (
    *("api_key", "apikey", "api-key", "Api-Key", "API-Key", "API-KEY", "access_token", "auth_token", "session_token"),
    *("client_secret", "secret_key", "secret_access_key", "SecretAccessKey", "SessionToken", "password", "passwd"),
)
_VALUE = r"""\\?["']?\s*[:=]\s*\\?["']?)((?!\$|\[key\])[^\s"'\\&;,)}<]{4,})"""
_OF_VARIABLES = re.compile(rf"((?:_KEY|APIKEY|TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIALS?)[A-Z0-9_]*{_VALUE}")
_OF_FIELDS = re.compile(
    rf"((?:api[-_]?key|(?:access|auth|session)_?token|client_secret|secret_?(?:access_?)?key|passw(?:or)?d){_VALUE}",
    re.IGNORECASE,
)
_OPTIONS = ("--password ", "--token ", "--api-key ", "--secret ")
_OF_OPTIONS = re.compile(r"""(--(?:password|token|api-key|secret)\s+\\?["']?)((?![-$\[])[^\s"'\\]{6,})""")


def redact_likely(text: str, hidden: tuple[str, ...] = ()) -> str:
    """Return a text with `REDACTED` in place of what is likely a secret, and of each hidden value.

    Of `NAME_KEY=value`, of a header and of an address with a password, the name stays.
    """
    for mark, pattern in _MARKED:
        if mark in text:
            text = pattern.sub(REDACTED, text)
    for names, named in ((_NAMES, _OF_VARIABLES), (_SMALL_NAMES, _OF_FIELDS), (_OPTIONS, _OF_OPTIONS)):
        if any(name in text for name in names):
            text = named.sub(lambda found: found[1] + REDACTED, text)
    return redact(text, hidden) if hidden else text
