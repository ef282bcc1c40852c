"""The policies of a bank as its log has them: those in force at a position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice, PolicySet
from rbank_es.events.bank_events import PolicyKind
from rbank_es.log import EventLog
from rbank_es.policies.policy_registry import governing


class PolicyInForce(msgspec.Struct, frozen=True, kw_only=True):
    """The policy of a kind that governs. `since_seq` is the event that put it in force with these settings.

    It is None where no event names a policy of this kind. `problem` says why this release can't decide by it.
    """

    kind: PolicyKind
    name: str
    version: int
    settings: dict[str, Any]
    since_seq: int | None = None
    problem: str | None = None

    @property
    def label(self) -> str:
        """Name and version: `dedup-1`."""
        return f"{self.name}-{self.version}"


def policies_in_force(log: EventLog, position: int) -> tuple[PolicyInForce, ...]:
    """Return the policy of each kind that governs behind a position, recorded or not."""
    since: dict[PolicyKind, tuple[PolicyChoice, int]] = {}
    for event in _settings_of(log, position):
        # A kind that an event leaves out has no policy from there on.
        since = {choice.kind: _kept(since.get(choice.kind), choice, event.seq) for choice in event.policies}
    return tuple(_in_force(kind, since.get(kind)) for kind in get_args(PolicyKind))


def _settings_of(log: EventLog, position: int) -> Iterator[PolicySet]:
    return (event for event in log.read(upto=position, types={"policy_set"}) if isinstance(event, PolicySet))


def _kept(before: tuple[PolicyChoice, int] | None, choice: PolicyChoice, seq: int) -> tuple[PolicyChoice, int]:
    return before if before is not None and before[0] == choice else (choice, seq)


def _in_force(kind: PolicyKind, found: tuple[PolicyChoice, int] | None) -> PolicyInForce:
    recorded, since = found if found is not None else (None, None)
    try:
        choice, problem = governing(kind, recorded).choice, None
    except BadPolicy as error:
        # Only a recorded one can be unknown: shown as it is, because a default would decide otherwise.
        assert recorded is not None
        choice, problem = recorded, str(error)
    return PolicyInForce(
        kind=kind, name=choice.name, version=choice.version, settings=choice.settings, since_seq=since, problem=problem
    )
