"""A mapping over another one, against a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rbank_es.law.bank_fold import Overlay

keys = st.integers(0, 5)


@given(st.dictionaries(keys, st.integers()), st.lists(st.tuples(keys, st.none() | st.integers()), max_size=12))
def test_a_layer_is_a_dict_that_leaves_the_one_below_alone(
    below: dict[int, int], changes: list[tuple[int, int | None]]
) -> None:
    """Whatever is set and dropped, in whatever order."""
    before, plain, overlay = dict(below), dict(below), Overlay(below)
    for key, value in changes:
        if value is not None:
            plain[key] = overlay[key] = value
        else:
            assert plain.pop(key, None) == overlay.pop(key, None)
        assert dict(overlay) == plain and len(overlay) == len(plain) and bool(overlay) == bool(plain)
        assert [(overlay.get(key), key in overlay) for key in range(6)] == [
            (plain.get(key), key in plain) for key in range(6)
        ]
    assert below == before
