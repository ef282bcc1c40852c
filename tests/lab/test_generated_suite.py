"""Generated suites: the same for the same seed, sound, and full of traps that trap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.errors import BadInput, QueryRefused
from rbank_es.judging.gold_answers import gold_of
from rbank_es.judging.result_comparison import compare_results
from rbank_es.lab.generated_suite import FAMILIES, GeneratedSuite, generate, second_version
from rbank_es.lab.suite_check import EnginePair, check_suite
from rbank_es.limits import experiment_limits
from rbank_es.loop.tasks import LEVELS
from rbank_es.ontology.loader import load_ontology
from rbank_es.sparql.data_source import open_source
from rbank_es.sparql.engines.local import LocalEngine
from tests.effort import examples


@contextmanager
def engines_over(made: GeneratedSuite, folder: Path) -> Iterator[EnginePair]:
    (folder / "ontology.ttl").write_bytes(made.files["ontology.ttl"])
    ontology = load_ontology(folder / "ontology.ttl", id=made.suite.ontology, cache=folder / "cache")
    source, second = open_source(ontology), LocalEngine(ontology.quads, "rdflib")
    try:
        yield EnginePair(source, second)
    finally:
        source.close()
        second.close()


seeds = st.integers(-(2**40), 2**40)


@settings(max_examples=examples(60), deadline=None)
@given(seeds, st.integers(1, 90))
def test_any_seed_gives_as_many_tasks_as_asked_for_spread_over_families_and_levels(seed: int, tasks: int) -> None:
    suite = generate(seed, tasks).suite
    assert len(suite.tasks) == tasks and len({task.question for task in suite.tasks}) == tasks
    cells = Counter((task.family, task.level) for task in suite.tasks)
    if tasks >= len(FAMILIES) * len(LEVELS):
        assert set(cells) == {(family, level) for family in FAMILIES for level in LEVELS}
    assert max(cells.values()) - min(cells.values()) <= max(2, tasks // 30)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seeds)
def test_no_term_of_a_generated_ontology_is_a_word_of_another(seed: int) -> None:
    """Two seeds share next to nothing, so what was learned of one can't be an answer about the other."""
    words = [set(re.findall(r"[vt]:(\w+)", generate(each, 30).turtle)) for each in (seed, seed + 1)]
    assert len(words[0] & words[1]) <= 1


@pytest.mark.parametrize(
    ("seed", "tasks", "first", "second"),
    [(0, 60, "2d78579031f254ec", "90a926861cbf87f0"), (7, 60, "9c630594274981f8", "09a5629abed011e2"),
     (2, 120, "ab567720f421473a", "400b16f08a56ea92")],
)  # fmt: skip
def test_answers_are_those_that_follow_from_the_world_without_any_query(
    seed: int, tasks: int, first: str, second: str
) -> None:
    """The digests are of suites whose answers were computed from carriers, posts and people, one template at a time."""
    assert generate(seed, tasks).suite.digest.startswith(first)
    assert second_version(seed, tasks).generated.suite.digest.startswith(second)


@pytest.mark.parametrize("tasks", [0, -1, experiment_limits.GENERATED_TASKS + 1])
def test_a_number_of_tasks_that_can_not_be_is_refused(tasks: int) -> None:
    with pytest.raises(BadInput, match="ask for 1 to"):
        generate(1, tasks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2026])
def test_every_trap_traps_and_every_answer_is_that_of_two_engines(seed: int, tmp_path: Path) -> None:
    """What pyoxigraph found is found by rdflib too, and by no misleading query."""
    for place, made in (("first", generate(seed, 30)), ("second", second_version(seed, 30).generated)):
        (tmp_path / place).mkdir()
        with engines_over(made, tmp_path / place) as engines:
            found = check_suite(made.suite, lambda task, pair=engines: pair)  # type: ignore[misc]
        assert [(task.task, task.flaws) for task in found.failing] == []
        assert place == "second" or {task.missed_by for task in found.tasks} == {"the misleading query"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 11])
def test_a_lesson_is_broken_in_exactly_the_tasks_that_are_listed(seed: int, tmp_path: Path) -> None:
    """The old gold query of a listed task no longer gives the answer; that of every other task still does."""
    first, second = generate(seed, 60).suite, second_version(seed, 60)
    assert {each.change for each in second.broken} == {"renamed", "turned", "removed"}
    listed = {id for each in second.broken for id in each.tasks}
    assert listed and len(listed) < len(first.tasks)
    with engines_over(second.generated, tmp_path) as engines:
        for task in first.tasks:
            stored = gold_of(None, task.answer)
            assert stored is not None and stored.answer is not None
            try:
                answer = engines.source.query(task.gold_sparql or "")[1]
                holds = compare_results(answer, stored.answer).equal
            except QueryRefused:
                holds = False
            assert holds == (task.id not in listed), task
