"""Overrides: the settings of policies that a loop's caller chose against the bank's, for the record of each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.judging.judges import judging_policy
from rbank_es.policies import ConsolidationPolicy, SuccessFailure, chosen_policy, governing, selection_policy

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events.event import Setting
    from rbank_es.loop.settings import LoopSettings


def extraction_policy(bank: Bank | None, settings: LoopSettings | None = None) -> SuccessFailure:
    """Return the bank's extraction policy, or a new bank's; settings may choose which rollouts it extracts from.

    Raises `BadPolicy` for a policy that this release can't extract by.
    """
    policy = governing("extraction", bank.policy_choice("extraction") if bank is not None else None)
    if not isinstance(policy, SuccessFailure):
        raise BadPolicy(f"{policy.label} is no extraction policy")
    given = settings.extract_from if settings is not None else None
    return policy if given is None else msgspec.structs.replace(policy, extract_from=given)


def consolidation_override(bank: Bank, settings: LoopSettings) -> ConsolidationPolicy | None:
    """Return the policy that the settings put in the place of the bank's; None if they choose none, or the bank's own.

    Raises `BadPolicy` for a policy that decides about no candidates.
    """
    recorded, name = bank.policy_choice("consolidation"), settings.consolidation
    if name is None or name == (governing("consolidation", None).name if recorded is None else recorded.name):
        return None
    policy = chosen_policy("consolidation", name)
    if not isinstance(policy, ConsolidationPolicy):
        raise BadPolicy(f"{policy.label} is no consolidation policy")
    return policy


def overrides_of(bank: Bank, settings: LoopSettings) -> dict[str, Setting]:
    """Return the policies and settings that differ from the bank's, by kind or `kind.setting`. Raises `BadPolicy`."""
    judging = judging_policy(bank)
    consolidation = consolidation_override(bank, settings)
    own = extraction_policy(bank)
    given: dict[str, tuple[Setting | None, Setting | None]] = {
        "judging": (settings.judge, judging.name),
        "judging.supervised": (settings.supervised or None, judging.supervised),
        "extraction.extract_from": (settings.extract_from, own.extract_from),
        "consolidation": (consolidation.name if consolidation is not None else None, None),
        # A single run is no selection, so it overrides none.
        "selection.k": (settings.rollouts if settings.rollouts > 1 else None, _rollouts(bank)),
    }
    return {name: chosen for name, (chosen, usual) in given.items() if chosen is not None and chosen != usual}


def _rollouts(bank: Bank) -> int:
    return selection_policy(bank.policy_choice("selection")).k
