"""Digests of a state, for the comparison of replays by eye or by a program in any language.

A part's digest is SHA-256 over its canonical form. This has one line per row: a compact JSON array in UTF-8, followed
by a newline. Lines are in ascending order of the row's first value (or first two, for verdicts) by code point. Object
keys are sorted. Positions, times of recording and event ids are left out, because an import of an export must have the
digests of the original.

    items     [id, title, desc, content, src, polarity, tags, role, scope, domain, state, support, erased, domains,
              vouched, superseded_by], of every item but unsupported ones, which count as never born
    usage     [item, uses, wins], of every item that was ever used
    runs      [run, every fact of `RunState` in its order, without positions and times]; a blank line; then verdicts:
              [run, purpose, verdict, judge, judge_version, kind, sure, confidence, overruled]
    policies  [kind, name, version, settings]
    all       SHA-256 over the four, as lines `items <hex>`, `usage <hex>`, `runs <hex>`, `policies <hex>`
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from msgspec import Struct, json

from rbank_es.law.bank_state import ItemState, RunState, State, usage

UNSTABLE = frozenset({"started_seq", "started_at", "finished_seq", "finished_at"})
"""Fields of `RunState` that depend on where and when a run was recorded."""

RUN_FACTS = tuple(name for name in RunState.__struct_fields__ if name not in UNSTABLE)

_ENCODER = json.Encoder(order="deterministic")


class StateDigests(Struct, frozen=True, kw_only=True):
    """SHA-256 of each part of a state and of all together, in lower-case hex."""

    items: str
    usage: str
    runs: str
    policies: str
    all: str


def state_digests(state: State) -> StateDigests:
    """Return the digests of a state: equal for equal content, whenever and wherever it was recorded."""
    parts = {
        "items": _sha256(_lines(_item_rows(state))),
        "usage": _sha256(_lines([item, *counts] for item, counts in sorted(usage(state).items()))),
        "runs": _sha256([*_lines(_run_rows(state)), b"\n", *_lines(_verdict_rows(state))]),
        "policies": _sha256(_lines(_policy_rows(state))),
    }
    # Of the digests, not of the parts, because then the four are enough to check the fifth.
    together = "".join(f"{name} {digest}\n" for name, digest in parts.items())
    return StateDigests(**parts, all=_sha256([together.encode()]))


def _item_rows(state: State) -> Iterable[list[object]]:
    return (_item_row(entry) for _, entry in sorted(state.items.items()) if entry.state != "unsupported")


def _item_row(entry: ItemState) -> list[object]:
    item = entry.item
    words = [item.id, item.title, item.desc, item.content]
    facts = [item.src, item.polarity, item.tags, item.role, item.scope, item.domain]
    standing = [entry.state, entry.support, entry.erased, entry.domains, entry.vouched, entry.superseded_by]
    return [*words, *facts, *standing]


def _run_rows(state: State) -> Iterable[list[object]]:
    return ([getattr(state.runs[run], name) for name in RUN_FACTS] for run in sorted(state.runs))


def _verdict_rows(state: State) -> Iterable[list[object]]:
    for (run, purpose), verdict in sorted(state.verdicts.items()):
        judge = [verdict.judge, verdict.judge_version, verdict.kind, verdict.sure]
        yield [run, purpose, verdict.verdict, *judge, verdict.confidence, verdict.overruled]


def _policy_rows(state: State) -> Iterable[list[object]]:
    policies = (state.policies[kind] for kind in sorted(state.policies))
    return ([policy.kind, policy.name, policy.version, policy.settings] for policy in policies)


def _lines(rows: Iterable[list[object]]) -> Iterable[bytes]:
    return (_ENCODER.encode(row) + b"\n" for row in rows)


def _sha256(chunks: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
