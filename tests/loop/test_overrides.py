"""Choices of a loop's caller that differ from the bank's policies are recorded with each run, and hold for it alone."""

from __future__ import annotations

from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.loop.settings import LoopSettings, overrides_of
from rbank_es.models.model_choice import LmChoice
from rbank_es.policies import changed, default_policies


@pytest.mark.parametrize(
    ("given", "overrides"),
    [
        ({}, {}),
        ({"judge": "lm"}, {}),
        ({"judge": "checks"}, {"judging": "checks"}),
        ({"judge": "none", "extract": False}, {"judging": "none"}),
        ({"supervised": True}, {"judging.supervised": True}),
        ({"extract_from": "best"}, {"extraction.extract_from": "best"}),
        ({"extract_from": "contrastive"}, {}),
        ({"consolidation": "append"}, {"consolidation": "append"}),
        ({"consolidation": "dedup"}, {}),
        ({"rollouts": 3}, {}),
        ({"rollouts": 5}, {"selection.k": 5}),
    ],
)
def test_what_differs_from_the_policies_of_a_new_bank_is_an_override(
    given: dict[str, Any], overrides: dict[str, Any]
) -> None:
    with Bank.create("memory:") as bank:
        assert overrides_of(bank, LoopSettings(lm=LmChoice(model="openai/x"), **given)) == overrides


def test_what_the_bank_says_itself_is_no_override() -> None:
    tables = {"judging": {"name": "checks", "supervised": True}, "selection": {"k": 5}}
    with Bank.create("memory:", policies=changed(default_policies(), tables)) as bank:
        chosen = LoopSettings(lm=LmChoice(model="openai/x"), judge="checks", supervised=True, rollouts=5)
        assert overrides_of(bank, chosen) == {}
        other = LoopSettings(lm=LmChoice(model="openai/x"), judge="lm")
        assert overrides_of(bank, other) == {"judging": "lm"}
