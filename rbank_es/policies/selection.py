"""Selection policies: how many rollouts a task gets, and which of them counts as its run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Protocol, TypeVar

from msgspec import Meta

from rbank_es import limits
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.run_events import VerdictValue
from rbank_es.policies.policy_registry import Policy, governing_as

# Rollouts of `--matts`, unless the bank's policy or the caller says otherwise (source: `--matts-k` in the source
# documents).
_MATTS_ROLLOUTS = 3


class Selectable(Protocol):
    """A finished rollout, as far as a selection looks at it. `verdict` is the one for learning."""

    @property
    def index(self) -> int:
        """Its index among the rollouts of the task, from 0."""
        ...

    @property
    def verdict(self) -> VerdictValue | None:
        """The verdict that stands; None without one."""
        ...

    @property
    def outcome(self) -> str:
        """How the run ended: submitted, forced_at_limit or failed."""
        ...

    @property
    def iterations(self) -> int:
        """The number of its steps."""
        ...


One = TypeVar("One", bound=Selectable)


class BestOf(Policy, frozen=True, kw_only=True):
    """The best rollout: success, undecided, failure; then an own submission, then by `among`, then the lowest index."""

    kind: ClassVar[PolicyKind] = "selection"
    name: ClassVar[str] = "best-of"

    k: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.ROLLOUTS,
            description="Rollouts of each task under --matts. Default: 3, of the source documents.",
        ),
    ] = _MATTS_ROLLOUTS
    among: Annotated[
        Literal["shortest", "first"],
        Meta(
            description="Among equals: shortest takes the fewest steps, first the lowest index. Default: shortest, "
            "our own choice; steps cost calls."
        ),
    ] = "shortest"

    def best(self, rollouts: Iterable[One]) -> One:
        """Return the best rollout. Raises ValueError for none."""
        return min(rollouts, key=self._key)

    def _key(self, one: Selectable) -> tuple[int, bool, int, int]:
        steps = one.iterations if self.among == "shortest" else 0
        # One that nobody judged may be right, as an undecided one may.
        rank = {"success": 0, "failure": 2}.get(one.verdict or "undecided", 1)
        return rank, one.outcome != "submitted", steps, one.index


def selection_policy(choice: PolicyChoice | None) -> BestOf:
    """Return the policy that a record names, or that of banks without a record for None. Raises `BadPolicy`."""
    return governing_as(BestOf, choice)
