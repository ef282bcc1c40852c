"""Proposals of a model about candidates: what it is shown, what is read of its answer, what the policy makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es.bank import Bank
from rbank_es.errors import LmFailed
from rbank_es.events import ConsolidationProposed, MemoriesExtracted
from rbank_es.events.derived_ids import derived_id
from rbank_es.events.items import Item
from rbank_es.extraction import Extraction, consolidate
from rbank_es.extraction.proposals import propose_merges, read_proposals
from rbank_es.law import Dedup, Merge
from rbank_es.models.model_call import failed
from rbank_es.policies import SuccessFailure
from tests.extraction.judged_runs import extractor
from tests.loop.loops import SCRIPT, TASKS, looped, scripted

OLD = Item.make("Count lights with DISTINCT", "Count each light once: COUNT(DISTINCT ?light).", "success", domain="d")
OTHER = Item.make("List the lights of a coast", "Match lt:coast, then order by name.", "success", domain="d")
NEW = Item.make(
    "Count lights once", "Count each light once with DISTINCT, also where names differ.", "success", domain="d"
)
NOTHING_LIKE_IT = Item.make("Ask the schema", "Read comments.", "success", domain="elsewhere")


def bank_of(policy: Merge | Dedup) -> Bank:
    bank = Bank.create("memory:", policies=[policy.choice])
    consolidate(bank, [Extraction(kind="seed", items=(OLD, OTHER))])
    return bank


def extracted(*items: Item) -> MemoriesExtracted:
    return Extraction(kind="success", items=items).event(derived_id(b"candidates", "test"))


def proposals(*entries: Any) -> str:
    return f"[[ ## proposals ## ]]\n{json.dumps(list(entries))}\n\n[[ ## why_none ## ]]\n\n[[ ## completed ## ]]"


def proposal(action: str = "supersede", *targets: str, candidate: int = 1) -> dict[str, Any]:
    return {"candidate": candidate, "action": action, "targets": list(targets), "why": "It says more."}


def test_no_model_is_asked_under_another_policy_or_about_what_resembles_nothing(tmp_path: Path) -> None:
    """A call costs money."""
    with extractor(tmp_path) as (_, lms, engine):
        with bank_of(Dedup()) as bank:
            assert propose_merges(bank, [extracted(NEW)], lms) == []
        with bank_of(Merge()) as bank:
            assert propose_merges(bank, [extracted(NOTHING_LIKE_IT)], lms) == []
        assert engine.prompts == []


@pytest.mark.parametrize(
    "text",
    [
        "I propose nothing.",
        "",
        "[" * 5_000,
        proposals(),
        proposals("supersede", 7, None, {}),
        proposals(proposal("erase", OLD.id)),
        proposals(proposal("add", OLD.id)),
        proposals(proposal("supersede")),
        proposals(proposal("supersede", "nobody")),
        proposals(proposal("supersede", OTHER.id)),
        proposals(proposal("supersede", OLD.id, candidate=0)),
        proposals(proposal("supersede", OLD.id, candidate=2)),
        proposals({**proposal("supersede", OLD.id), "candidate": 10**30}),
    ],
)
def test_what_names_no_shown_candidate_and_no_listed_item_is_no_proposal(text: str) -> None:
    """Whatever a model answers raises nothing, and can neither erase nor write."""
    assert read_proposals(text, "e", {0: [OLD]}) == []


def test_without_a_model_that_answers_the_policy_decides_as_dedup(tmp_path: Path) -> None:
    """Unless every later call would fail too."""
    with bank_of(Merge()) as bank:
        with extractor(tmp_path, failed("timeout", "too slow")) as (_, lms, _):
            event = extracted(NEW)
            made = propose_merges(bank, [event], lms)
            done = consolidate(bank, [event], before=made)
        assert (made, [decision.action for decision in done.decisions]) == ([], ["add"])
        with extractor(tmp_path / "b", failed("authentication", "no key")) as (_, lms, _), pytest.raises(LmFailed):
            other = Item.make("Count lights only once", NEW.content, "success", domain="d")
            propose_merges(bank, [extracted(other)], lms)


def test_a_loop_asks_the_model_about_what_it_drew(tmp_path: Path) -> None:
    """Where the bank's policy is `merge`; what the model put in an item's place is given to the next task."""
    old = Item.make("Find a light by its name", "Match lt:name first, then the height that is asked for.", "success")
    old = replace(old, domain="lights")
    asked = f"""
[[task.extractor]]
[[task.extractor.fields.proposals]]
candidate = 1
action = "supersede"
targets = ["{old.id}"]
why = "It names the property."
"""
    with Bank.create("memory:", policies=[Merge().choice, SuccessFailure().choice]) as bank:
        consolidate(bank, [Extraction(kind="seed", items=(old,))])
        looped(bank, scripted(tmp_path, SCRIPT + asked, judge="lm", extract=True), TASKS)
        [made] = [event for event in bank.events(types={"consolidation_proposed"})]
        assert isinstance(made, ConsolidationProposed) and made.targets == (old.id,)
        assert bank.state().items[old.id].state == "superseded"
