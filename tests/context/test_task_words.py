"""Which terms a task names."""

from __future__ import annotations

from rbank_es.context.term_order import TaskWords

NS = "https://example.org/ns#"


def test_a_name_with_fewer_other_words_fits_better_and_one_that_is_named_best() -> None:
    task = TaskWords("Where are the floors of ex:Tower_Floor_Plan?")
    fits = [task.fit(NS + name) for name in ("Tower_Floor_Plan", "Floor", "Floor_Covering")]
    assert fits == sorted(fits, reverse=True)
    assert len(set(fits)) == 3
