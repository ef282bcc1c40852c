"""Items by their rarest words: sets of items, lists of a few, and indexes that share an order of words."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.events.items import Item
from rbank_es.law.rare_words import RareWords
from rbank_es.law.similar_items import Peer
from rbank_es.policies.bit_slices import documents_of, each_in, in_several
from tests.effort import examples

CONTENT_MIN = (3, 4)
ITEMS, WORDS = 2_950, 24


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sets(st.integers(0, 120), max_size=60), max_size=9), st.integers(1, 4))
def test_what_is_in_several_sets_is_what_was_counted_so_often(sets: list[set[int]], least: int) -> None:
    listed, *others = [set[int](), *sets]
    counted = [documents_of(sorted(listed), 120), *[0] * (least - 1)]
    found = [*each_in(in_several([documents_of(some, 120) for some in others], counted))]
    counts = Counter(number for some in sets for number in some)
    assert found == sorted(number for number in counts if counts[number] >= least)


@pytest.mark.slow
def test_among_thousands_of_items_those_with_similar_contents_are_found() -> None:
    """Words are from common to such as two items have alone; an index over some of the items is begun with the
    order of words of the first, and both take in more."""
    chance = Random(5)
    vocabulary, weights = [f"w{number}" for number in range(2_000)], [1 / (number + 5) for number in range(2_000)]
    own_words = [[f"own{number * WORDS + word}" for word in range(WORDS)] for number in range(50)]
    contents = own_words + [chance.choices(vocabulary, weights, k=WORDS) for _ in range(ITEMS)]
    contents += [[*some[:-2], "new", "newer"] for some in contents[::10]]
    peers = [Peer(Item.make("a title", " ".join(some), "success"), ((0, 0), "")) for some in contents]
    below = RareWords(CONTENT_MIN)
    below.index(peers[:ITEMS])
    above, own = RareWords(CONTENT_MIN, below), peers[-200:]
    above.index(own[:50])
    for peer in peers[::10]:
        assert similar(peers, peer) <= set(below.near(peers, peer.words))
        assert similar(own, peer) <= set(above.near(own, peer.words))


def similar(peers: list[Peer], to: Peer, content_min: tuple[int, int] = CONTENT_MIN) -> set[int]:
    """The numbers of the items whose contents are similar enough, by the definition."""
    least, of = content_min
    return {
        number
        for number, peer in enumerate(peers)
        if of * len(peer.words & to.words) >= least * len(peer.words | to.words)
    }
