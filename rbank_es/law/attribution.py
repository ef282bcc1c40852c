"""Attribution: which runs count as uses of an item, and so whose verdicts are its wins and losses.

The fold and the read models apply the setting `counted` of the policy in force (`rbank_es.law.counted_uses` and the
view `counted_uses`). They record each way in which a run was given an item, so a change recounts the whole log.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from rbank_es.events.bank_events import PolicyKind
from rbank_es.law.bank_state import Counted
from rbank_es.policies.policy_registry import Policy


class Exposure(Policy, frozen=True, kw_only=True):
    """A run uses an item once, however often and in whichever of the counted ways it was given it."""

    kind: ClassVar[PolicyKind] = "attribution"
    name: ClassVar[str] = "exposure"

    counted: Annotated[
        Counted,
        Meta(
            description="The runs that use an item: injected counts those that had it in their context, read those "
            "that read it in full with a tool, either both. Default: either, because both put the whole item before "
            "the model."
        ),
    ] = "either"
