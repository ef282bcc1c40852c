"""The binary search over the places where memory changed, against a look at every place."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.rerun.change_search import GUESSES, ChangeSearch, FoundChange, MemoryDifference
from rbank_es.rerun.given_memory import GivenMemory

World = list[GivenMemory]
"""What a run is given at place -1 (first) and at each place."""


def searched(world: World, guesses: dict[str, list[int]] | None = None) -> tuple[ChangeSearch, list[FoundChange]]:
    search = ChangeSearch(len(world) - 1, lambda place: world[place + 1])
    known = guesses or {}
    return search, search.changes(lambda found, _low, _high: known.get("".join((*found.gained, *found.lost)), []))


def begins(world: World, place: int, difference: MemoryDifference) -> bool:
    """Whether all of a difference is there at a place, and none of it just before."""
    now, then, own = world[place + 1], world[place], world[-1]
    words = (own.items, own.procedures)
    facts = [
        *((item in now.items and item not in then.items) for item in difference.gained),
        *((item in then.items and item not in now.items) for item in difference.lost),
        *([now.guide == own.guide != then.guide] if difference.guide else []),
        *([(now.items, now.procedures) == words != (then.items, then.procedures)] if difference.words else []),
    ]
    return bool(facts) and all(facts)


def flips(world: World, item: str) -> list[int]:
    """The places at which an item is given and was not before, or the other way round."""
    return [
        place for place in range(len(world) - 1) if (item in world[place].items) != (item in world[place + 1].items)
    ]


def bound(count: int) -> int:
    """The checks of a search for one difference: both ends, the halvings, and the place after."""
    return 2 + ceil(log2(count)) + 1 if count else 1


@st.composite
def steps(draw: st.DrawFn) -> tuple[World, dict[str, int]]:
    """A world in which each item came or went once, and at which place."""
    count = draw(st.integers(1, 200))
    at = {item: draw(st.integers(0, count - 1)) for item in draw(st.sets(st.sampled_from("abcd"), min_size=1))}
    came = {item: draw(st.booleans()) for item in at}
    return [
        GivenMemory(items=tuple(item for item in sorted(at) if (place >= at[item]) == came[item]))
        for place in range(-1, count)
    ], at


worlds = st.lists(
    st.builds(
        GivenMemory,
        items=st.lists(st.sampled_from("abcd"), unique=True, max_size=3).map(tuple),
        procedures=st.sampled_from(("", "one", "two")),
        guide=st.sampled_from(("", "guide")),
    ),
    min_size=1,
    max_size=60,
)


@given(steps())
def test_what_changed_once_is_found_where_it_changed(made: tuple[World, dict[str, int]]) -> None:
    world, at = made
    _, changes = searched(world)
    assert {item: each.place for each in changes for item in each.difference.gained + each.difference.lost} == at
    assert all(each.steady for each in changes)


@given(worlds)
def test_a_change_found_in_any_past_is_one(world: World) -> None:
    """Also where items come and go: just before the place it was otherwise, and nothing steady was seen otherwise."""
    search, changes = searched(world)
    assert all(begins(world, each.place, each.difference) for each in changes)
    assert bool(changes) != world[0].same_as(world[-1])
    assert all(search.given[place] == world[place + 1] for place in search.given)
    for each in changes:
        seen = [len(flips(world, item)) > 1 for item in each.difference.gained + each.difference.lost]
        assert each.steady or any(seen) or each.difference.guide or each.difference.words


@given(steps())
def test_checks_grow_with_the_logarithm_of_the_places(made: tuple[World, dict[str, int]]) -> None:
    """Both ends are asked once; each other place at most once; each difference halves what is left."""
    world, at = made
    search, _ = searched(world)
    assert len(search.given) <= bound(len(world) - 1) + (len(at) - 1) * (ceil(log2(len(world))) + 1)
    one: World = [GivenMemory(items=tuple(id for id in each.items if id == min(at))) for each in world]
    assert len(searched(one)[0].given) <= bound(len(one) - 1)


@given(steps())
def test_a_good_guess_finds_a_change_with_two_more_checks(made: tuple[World, dict[str, int]]) -> None:
    world, at = made
    item = min(at)
    one: World = [GivenMemory(items=tuple(id for id in each.items if id == item)) for each in world]
    search, changes = searched(one, {item: [at[item]]})
    assert [each.place for each in changes] == [at[item]]
    assert len(search.given) <= 5  # both ends, the place, the one before, the one after


@given(steps(), st.lists(st.integers(0, 199), max_size=8))
def test_bad_guesses_change_no_answer_and_cost_two_checks_each(
    made: tuple[World, dict[str, int]], guesses: list[int]
) -> None:
    world, at = made
    search, changes = searched(world, dict.fromkeys(at, guesses))
    assert [each.place for each in changes] == [each.place for each in searched(world)[1]]
    each_takes = ceil(log2(len(world))) + 1 + 2 * min(len(set(guesses)), GUESSES)
    assert len(search.given) <= 2 + len(at) * each_takes


def test_the_search_ends_at_the_limit_of_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found until then is kept, and that there may be more."""
    monkeypatch.setattr(limits, "BISECT_CHECKS", 14)
    world = [GivenMemory(items=("a", "b") if place > 900 else ("a",) if place > 100 else ()) for place in range(1_001)]
    search, changes = searched(world)
    assert not search.complete and len(search.given) == 14
    assert [each.difference.gained for each in changes] == [("a",)]
