"""Sets that grow, beside Python's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rbank_es.law.persistent_set import GrowingSet

GROWTHS = st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 9), max_size=4)), max_size=30)


@given(GROWTHS)
def test_each_version_stays_as_it_was_whatever_grows_from_it(growths: list[tuple[int, list[int]]]) -> None:
    """Any version may go on, also one that another has followed already."""
    versions, truth = [GrowingSet[int]()], [frozenset[int]()]
    for number, more in growths:
        place = number % len(versions)
        versions.append(versions[place].with_more(more))
        truth.append(truth[place] | set(more))
    for version, members in zip(versions, truth, strict=True):
        assert version == members and set(version) == members and len(version) == len(members)
        assert all((member in version) == (member in members) for member in range(10))
        for other, others in zip(versions, truth, strict=True):
            assert set(version.since(other)) == members - others
