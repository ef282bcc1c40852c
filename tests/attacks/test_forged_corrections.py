"""A stranger's bank, whose events about corrections are forged: what it claims is derived anew, and can be mended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.events import (
    ConsolidationProposed,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Event,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRestored,
    MemoriesRetracted,
)
from rbank_es.events.memory_events import Action
from rbank_es.law import active
from tests.cli.misled import HEIGHT, SORTED, TWIN, WARNING, judged, misled_bank
from tests.cli_runner import run as command

Ids = dict[str, str]
"""Extractions by the id of their one item."""


def again(ids: Ids, *made: tuple[str, Action, tuple[str, ...]], correction: str | None = None) -> MemoriesConsolidated:
    """Forge decisions that a correction is said to have made again."""
    decisions = (
        Decision(extraction=ids.get(item, item), candidate=0, action=action, item=item, targets=targets)
        for item, action, targets in made
    )
    return MemoriesConsolidated(again=True, correction=correction, policy="canonical-1", decisions=tuple(decisions))


def completed(correction: str) -> CorrectionCompleted:
    return CorrectionCompleted(correction=correction, rule=1)


H, T, W, S = HEIGHT.id, TWIN.id, WARNING.id, SORTED.id

FORGED: dict[str, Callable[[Ids], Iterable[Event]]] = {
    "a completion that hides what is due": lambda ids: [judged("wrong", "failure", "human"), completed("c1")],
    "a completion by another rule": lambda ids: [
        judged("wrong", "failure", "human"), CorrectionCompleted(correction="c1", rule=99),
    ],
    "parts that forget": lambda ids: [
        MemoriesForgotten(ids=(H, W, "nothing"), policy="canonical-1", correction="c1"), completed("c1"),
    ],
    "parts that vouch": lambda ids: [
        judged("wrong", "failure", "human"),
        MemoriesRestored(ids=(H,), how="vouched", correction="c1"),
        completed("c1"),
        completed("c1"),
    ],
    "parts that discard everything": lambda ids: [
        again(ids, (H, "discard", ()), (S, "discard", ()), (W, "discard", ()), correction="c1"), completed("c1"),
    ],
    "parts without an end": lambda ids: [again(ids, (H, "discard", ()), correction=f"c{n}") for n in range(20)],
    "a cycle of items that supersede one another": lambda ids: [
        again(ids, (H, "supersede", (W,)), (W, "supersede", (S,)), (S, "supersede", (H,)), (T, "merge", (T, H))),
    ],
    "a cycle of items that support one another": lambda ids: [
        again(ids, (H, "skip", (S,)), (S, "skip", (H,)), (W, "skip", ("nothing",))),
    ],
    "decisions about candidates that aren't there": lambda ids: [
        again(ids, ("nothing", "add", ()), ("nowhere", "supersede", (H, W, S))),
        again({H: ids[W]}, (H, "add", ())),
    ],
    "acts on what isn't there": lambda ids: [
        DecisionUndone(extraction="nothing", candidate=10**9),
        DecisionUndone(extraction=ids[H], candidate=10**9),
        MemoriesRetracted(ids=("nothing",), how="rejected"),
        MemoriesRestored(ids=("nowhere",)),
        MemoriesAdmitted(ids=("nobody",)),
        MemoriesRetracted(how="tainted", extractions=("nothing", ids[H]), run="nobody", verdict="undecided"),
        MemoriesRetracted(how="tainted", extractions=(ids[H],)),
        ConsolidationProposed(extraction="nothing", candidate=7, action="merge", targets=(H,)),
        ConsolidationProposed(extraction=ids[H], candidate=0, action="discard", targets=(H,)),
    ],
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "bank"


def forged(place: Path, attack: str) -> Bank:
    bank = misled_bank(place)
    ids = {event.heads[0].id: event.id for event in bank.events() if isinstance(event, MemoriesExtracted)}
    for event in FORGED[attack](ids):
        bank.append(event)
    return bank


@pytest.mark.parametrize("attack", FORGED)
def test_whatever_corrections_are_forged_making_every_decision_again_mends_the_bank(attack: str, place: Path) -> None:
    with forged(place, attack) as bank:
        bank.correct(decisions=True)
        assert bank.check(decisions=True).canonical.canonical
        end = bank.position
        assert not bank.correct(decisions=True).recorded and not bank.correct().recorded
        assert bank.position == end
        state = bank.state()
        assert set(active(state)) == (
            {T, W, S} if state.verdicts["wrong", "learning"].verdict == "failure" else {H, W, S}
        )


@pytest.mark.parametrize("attack", FORGED)
def test_what_a_forged_correction_leaves_is_searched_as_it_is_folded(attack: str, place: Path) -> None:
    with forged(place, attack) as bank:
        found = {hit.id for item in (HEIGHT, TWIN, WARNING, SORTED) for hit in bank.search(item.title, k=10)}
        assert found == set(active(bank.state()))


@pytest.mark.slow
def test_the_command_that_verify_names_mends_what_the_log_claims_to_be_right(place: Path) -> None:
    forged(place, "a completion that hides what is due").close()
    cwd = place.parent
    assert "correct bank --decisions" in command("verify", str(place), "--decisions", cwd=cwd, code=1).out
    assert "nothing is due" in command("correct", str(place), cwd=cwd).out
    assert TWIN.title in command("correct", str(place), "--decisions", "--dry-run", cwd=cwd).out
    assert TWIN.title in command("correct", str(place), "--decisions", cwd=cwd).out
    command("verify", str(place), "--decisions", cwd=cwd)
