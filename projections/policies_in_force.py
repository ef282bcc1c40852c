"""The projection of policies in force: one of each kind, with the position from which it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from rbank_es.events import PolicySet
from rbank_es.events.bank_events import PolicyKind
from rbank_es.projections.projection import Close, Projection, Put, Table, json_of

CHOICES = Table(
    name="policy_choices",
    columns="kind TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, settings TEXT NOT NULL",
    key=("kind", "from_seq"),
    current=1,
)

_POLICIES = """
SELECT kind, name, version, settings, from_seq AS since_seq FROM policy_choices WHERE to_seq IS NULL
"""


def record_policies(event: PolicySet) -> Iterator[Close | Put]:
    """Record the policies in force from here on; a kind that is left out has none."""
    chosen = {choice.kind: choice for choice in event.policies}
    for kind in get_args(PolicyKind):
        choice = chosen.get(kind)
        if choice is None:
            yield Close("policy_choices", (kind,))
        else:
            row = (kind, choice.name, choice.version, json_of(choice.settings), event.seq)
            yield Put("policy_choices", row)


POLICIES_IN_FORCE = Projection(
    name="policies",
    version=1,
    title="Policies in force: how the bank retrieves, consolidates, forgets",
    handlers={PolicySet: record_policies},
    tables=(CHOICES,),
    views={"policies": _POLICIES},
)
