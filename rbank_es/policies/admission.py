"""Admission policies: whether the items of an extraction are active at once, or pending until a person admits them.

The policy decides when an extraction is recorded; its event says `pending`. A pending item is active once an extraction
that isn't pending gives the same id, or a person admits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta
from msgspec.structs import replace

from rbank_es.events import Event, MemoriesExtracted, PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.policies.policy_registry import Policy, governing_as

Origin = Literal["run", "rollouts", "agent", "query", "person"]
"""Whence candidates come: an extractor that read one run; one that compared rollouts; the agent's own words; a query
that a tool generalised; a person, or a file that a person imports."""

AGENT_WORDS, TOOL_QUERIES = "proposals-1", "queries-1"
"""The extractors that events name for the agent's own words, and for queries that a tool generalised."""

PROPOSED_BY: dict[str, Origin] = {AGENT_WORDS: "agent", TOOL_QUERIES: "query"}
"""The origin of candidates that tools proposed, by the extractor that their event names."""


def origin_of(extraction: MemoriesExtracted) -> Origin:
    """Return the origin of an extraction's candidates."""
    if extraction.extractor in PROPOSED_BY:
        return PROPOSED_BY[extraction.extractor]
    # A person's items may have any source, so a kind alone doesn't tell that a run taught them.
    if extraction.kind in ("seed", "manual") or not (extraction.runs or extraction.extractor):
        return "person"
    return "rollouts" if extraction.kind in ("contrastive", "pattern") else "run"


class AdmissionPolicy(Policy, frozen=True, kw_only=True):
    """A rule that holds back items of some origins."""

    kind: ClassVar[PolicyKind] = "admission"

    def holds(self, origin: Origin) -> bool:
        """Return whether items of this origin are pending at first."""
        raise NotImplementedError


class StandardAdmission(AdmissionPolicy, frozen=True, kw_only=True):
    """Items in the agent's own words are pending; others are active at once, unless the settings hold them back."""

    name: ClassVar[str] = "standard"

    rollouts: Annotated[
        bool,
        Meta(
            description="Whether items drawn by comparing rollouts are active at once. Default: our own choice; they "
            "rest on judged runs, as items of a single run do."
        ),
    ] = True
    queries: Annotated[
        bool,
        Meta(
            description="Whether query patterns that a tool generalised are active at once. Default: our own choice; "
            "a parser wrote them, from a query on which a judged answer rests."
        ),
    ] = True

    def holds(self, origin: Origin) -> bool:
        """Return whether items of this origin are pending at first."""
        return (
            origin == "agent"
            or (origin == "rollouts" and not self.rollouts)
            or (origin == "query" and not self.queries)
        )


class OpenAdmission(AdmissionPolicy, frozen=True, kw_only=True):
    """Every item is active at once, the agent's own words included."""

    name: ClassVar[str] = "open"

    def holds(self, origin: Origin) -> bool:
        """Return False."""
        return False


class ReviewedAdmission(AdmissionPolicy, frozen=True, kw_only=True):
    """Everything learned is pending until a person admits it."""

    name: ClassVar[str] = "reviewed"

    given: Annotated[
        bool,
        Meta(
            description="Whether items that a person gives or imports are active at once. Default: our own choice; "
            "giving them is a person's word."
        ),
    ] = True

    def holds(self, origin: Origin) -> bool:
        """Return whether items of this origin are pending at first."""
        return origin != "person" or not self.given


def admission_policy(choice: PolicyChoice | None) -> AdmissionPolicy:
    """Return the policy that a record names, or that of banks without a record for None. Raises `BadPolicy`."""
    return governing_as(AdmissionPolicy, choice)


def held_back(
    events: Iterable[Event], choice: PolicyChoice | None, whence: Callable[[MemoriesExtracted], Origin] = origin_of
) -> list[Event]:
    """Return new events, their extractions pending where the admission policy holds them back. Raises `BadPolicy`.

    `whence` tells the origin of an extraction. One that is pending already stays so.
    """
    policy = admission_policy(choice)
    held = {origin for origin in get_args(Origin) if policy.holds(origin)}
    return [
        replace(event, pending=True) if isinstance(event, MemoriesExtracted) and whence(event) in held else event
        for event in events
    ]
