"""State digests: equal for equal content, different for different content, and documented to the byte."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import asdict, replace

from rbank_es.events import ContextBuilt, Event, PolicyChoice, PolicySet, RunJudged, RunStarted
from rbank_es.events.items import Item
from rbank_es.law import ItemState, State, fold, usage
from rbank_es.law.digests import UNSTABLE, StateDigests, state_digests
from tests.strategies import histories, restamped, stamped

OWL = Item.make("Owls see", 'Look "at" night: naïve 🦉', desc="On owls.", tags=("birds", "night"), id="owl")


def with_item(**changes: Any) -> State:
    entry = ItemState(item=OWL, born_seq=3, extraction="e", witnesses=("e",), rank=(3, 0))
    entry = replace(entry, **changes)
    return State(position=9, items={entry.item.id: entry})


def changed(one: StateDigests, other: StateDigests) -> set[str]:
    return {name for name, digest in asdict(one).items() if digest != asdict(other)[name]}


def test_the_canonical_form_is_as_documented() -> None:
    """Somebody with a JSON library and SHA-256 arrives at the same digests."""
    events = [
        RunStarted(run="r1", model="m"),
        ContextBuilt(run="r1", chars=1, items=("owl",)),
        RunJudged(run="r1", purpose="learning", verdict="success", judge="j", judge_version="1", kind="lm"),
        PolicySet(policies=(PolicyChoice(kind="retrieval", name="bm25", version=1, settings={"k": 1, "a": 0.5}),)),
    ]
    state = replace(fold(stamped(events)), items=with_item().items)

    def sha256(*rows: Any) -> str:
        lines = ("" if row is None else json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()

    item = ["owl", OWL.title, OWL.desc, OWL.content, "seed", "success", ["birds", "night"], None, "", None]
    run = [value for name, value in asdict(state.runs["r1"]).items() if name not in UNSTABLE]
    expected = {
        "items": sha256([*item, "active", 1, False, [], False, []]),
        "usage": sha256(["owl", 1, 1]),
        "runs": sha256(run, None, ["r1", "learning", "success", "j", "1", "lm", False, None, False]),
        "policies": sha256(["retrieval", "bm25", 1, {"a": 0.5, "k": 1}]),
    }
    together = "".join(f"{name} {digest}\n" for name, digest in expected.items())
    expected["all"] = hashlib.sha256(together.encode()).hexdigest()
    assert asdict(state_digests(state)) == expected


def test_the_digests_of_an_empty_bank_never_change() -> None:
    """They are the same in every release."""
    assert state_digests(State()).items == hashlib.sha256(b"").hexdigest()
    assert state_digests(State()).all == "69cb1316bf5d4f21f3e369e96a522e0ea1d5a837d237671628586792ad980362"


@pytest.mark.slow
@given(histories(erased=True).map(stamped))
def test_a_history_recorded_elsewhere_has_the_same_digests(log: list[Event]) -> None:
    """At other positions and times, under other event ids."""
    assert state_digests(fold(log)) == state_digests(fold(restamped(log)))


@pytest.mark.slow
@given(histories(erased=True).map(stamped))
def test_the_order_in_which_a_state_is_kept_does_not_count(log: list[Event]) -> None:
    """Another program may hold the same rows in another order."""
    state = fold(log)
    turned = {
        name: dict(reversed(getattr(state, name).items())) for name in ("items", "uses", "runs", "verdicts", "policies")
    }
    assert state_digests(replace(state, **turned)) == state_digests(state)


def content(state: State) -> dict[str, Any]:
    """What a state says, as plain values."""
    items = {
        id: replace(entry, born_seq=0, ended_seq=None, extraction="", rank=(0, 0))
        for id, entry in state.items.items()
        if entry.state != "unsupported"
    }
    runs = {run: [v for name, v in asdict(found).items() if name not in UNSTABLE] for run, found in state.runs.items()}
    verdicts = {key: replace(verdict, seq=0, rank=0, said=("", "")) for key, verdict in state.verdicts.items()}
    return {"items": items, "usage": usage(state), "runs": (runs, verdicts), "policies": state.policies}


@pytest.mark.slow
@given(histories(max_size=6), histories(max_size=6))
def test_digests_are_equal_exactly_where_content_is(one: list[Event], other: list[Event]) -> None:
    """Part by part, and all together where all parts are."""
    first, second = fold(stamped(one)), fold(stamped(other))
    same = {name for name, part in content(first).items() if part == content(second)[name]}
    differing = changed(state_digests(first), state_digests(second))
    assert differing - {"all"} == content(first).keys() - same
    assert ("all" in differing) == bool(differing - {"all"})
