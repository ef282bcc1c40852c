"""Policies: named, versioned, pure rules by which a bank decides. Which are in force is an event, `policy_set`.

retrieval      bm25
consolidation  append  dedup
forgetting     never  bounded
judging        checks  lm
extraction     success-failure
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.policies.consolidation import (
    Append,
    Dedup,
    consolidate,
    content_jaccard,
    find_similar,
    title_similarity,
)
from rbank_es.policies.extraction_policy import SuccessFailure
from rbank_es.policies.forgetting import Bounded, Never, to_forget
from rbank_es.policies.judgment_policy import CheckJudging, LmJudging
from rbank_es.policies.policy import Policy
from rbank_es.policies.retrieval import RetrievalPolicy, match_expression, query_words

__all__ = [
    "Append",
    "Bounded",
    "CheckJudging",
    "Dedup",
    "LmJudging",
    "Never",
    "Policy",
    "RetrievalPolicy",
    "SuccessFailure",
    "consolidate",
    "content_jaccard",
    "default_policies",
    "find_similar",
    "load_policies",
    "match_expression",
    "policy_of",
    "query_words",
    "title_similarity",
    "to_forget",
]

DEFAULTS: dict[str, Policy] = {"retrieval": RetrievalPolicy(), "consolidation": Dedup(), "forgetting": Never()}
"""The policy of each kind that a new bank starts with."""

UNRECORDED: dict[str, Policy] = {"judging": CheckJudging(), "extraction": SuccessFailure()}
"""What holds of each kind that a new bank records no policy of, because runs may choose it one by one."""

_POLICIES: tuple[type[Policy], ...] = (
    RetrievalPolicy,
    Append,
    Dedup,
    Never,
    Bounded,
    CheckJudging,
    LmJudging,
    SuccessFailure,
)


def default_policies() -> tuple[PolicyChoice, ...]:
    """What a new bank decides by: bm25, dedup, never; with every setting."""
    return tuple(policy.choice for policy in DEFAULTS.values())


def policy_of(choice: PolicyChoice) -> Policy:
    """The policy that a record names. Raises `BadPolicy` for an unknown kind, name, version or setting."""
    return _class_of(choice.kind, choice.name, choice.version).of(choice)


def load_policies(text: str) -> tuple[PolicyChoice, ...]:
    """The policies that a file describes, in TOML, or in JSON if it begins with a brace; with every setting.

    One table per kind: its `name`, its `version` (default: the only one), and any settings beside them. A kind that
    is left out keeps its default; of those in `UNRECORDED`, none is recorded. A table without a name sets up the
    default policy. Raises `BadPolicy`.

        [retrieval]
        name = "bm25"
        k = 2
    """
    tables = _parse(text.lstrip("\ufeff"))
    for kind in tables:
        _check_kind(kind)
    given = {kind: _chosen(kind, tables[kind]) for kind in _known() if kind in tables}
    return tuple(policy.choice for policy in (DEFAULTS | given).values())


def _known() -> dict[str, Policy]:
    """Every kind that there are policies of, with what holds unless one is set."""
    return DEFAULTS | UNRECORDED


def _parse(text: str) -> dict[str, Any]:
    import tomllib  # only those who bring a file of their own pay for it

    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text, type=dict[str, Any])
        return tomllib.loads(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadPolicy(f"the policies are neither TOML nor a JSON object: {error}") from None


def _chosen(kind: str, table: Any) -> Policy:
    if not isinstance(table, dict):
        raise BadPolicy(f"{kind} must be a table of name, version and settings, not {type(table).__name__}")
    name, version = table.get("name", _known()[kind].name), table.get("version", 1)
    if not isinstance(name, str):
        raise BadPolicy(f"{kind}: name must be a string, not {type(name).__name__}")
    settings = {key: value for key, value in table.items() if key not in ("name", "version")}
    return _class_of(kind, name, version).with_settings(settings)


def _class_of(kind: str, name: str, version: object) -> type[Policy]:
    _check_kind(kind)
    known = {policy.name: policy for policy in _POLICIES if policy.kind == kind}
    if name not in known:
        raise BadPolicy(f"no {kind} policy is called {name!r}{_hint(name, known)}")
    found = known[name]
    if isinstance(version, bool) or version != found.version:
        raise BadPolicy(f"{kind} policy {name} has version {found.version}, not {version!r}")
    return found


def _check_kind(kind: str) -> None:
    if kind not in _known():
        raise BadPolicy(f"no policies of kind {kind!r} can be set{_hint(kind, _known())}")


def _hint(word: str, known: dict[str, Any]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(sorted(known))}"
