"""The law of correction, by version: which of several judgments or acts of equal authority counts.

The fold and the read models apply it (`rbank_es.law.validity.is_later`). It counts from its position on: a judgment
or an act that was recorded before keeps the place that it had there.
"""

from __future__ import annotations

from typing import ClassVar

from rbank_es.events.bank_events import PolicyKind
from rbank_es.policies.policy_registry import Policy


class LawV1(Policy, frozen=True, kw_only=True):
    """Of judgments of equal authority, and of acts of people on one item, the last in the log counts."""

    kind: ClassVar[PolicyKind] = "correction"
    name: ClassVar[str] = "law"


class LawV2(Policy, frozen=True, kw_only=True):
    """Of judgments of equal authority, and of acts of people on one item, the one that happened last counts.

    By `occurred_at`, else `at`; of the same time, by id. So banks that absorb each other, in any order, end equal.
    """

    kind: ClassVar[PolicyKind] = "correction"
    name: ClassVar[str] = "law"
    version: ClassVar[int] = 2
