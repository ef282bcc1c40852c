"""Definitions of experiments: the shipped ones reach every switch; unknown keys, layers, policies are refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.context.assembly import build_context
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.exchange import import_paths
from rbank_es.lab.experiment_definition import (
    Condition,
    load_experiment,
    parse_experiment,
    shipped_experiments,
)
from rbank_es.lab.task_suite import load_suite
from rbank_es.lab.toml_text import to_toml
from rbank_es.loop.settings import LoopSettings
from tests.loop.loops import source
from tests.test_docs import ROOT

SHIPPED = {name: load_experiment(name) for name in shipped_experiments()}
CONDITIONS = [condition for each in SHIPPED.values() for condition in each.condition]

HEAD = 'name = "x"\ntitle = "t"\n'
ONE = HEAD + '[[condition]]\nname = "a"\n'


@pytest.mark.parametrize("name", SHIPPED)
def test_a_definition_that_is_written_with_its_defaults_is_the_same_when_it_is_read_back(name: str) -> None:
    assert parse_experiment(SHIPPED[name].to_toml().encode()) == SHIPPED[name]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_experiment_that_gives_memory_has_a_condition_without_and_repeats_enough_to_say_something(
    name: str,
) -> None:
    one = SHIPPED[name]
    assert one.orders * one.repetitions >= 5
    if any(each.is_given_memory for each in one.condition):
        assert not one.named(str(one.baseline)).is_given_memory
    # Whoever learns has its tasks in several orders, because later ones profit.
    assert one.orders > 1 or not any(each.extract for each in one.condition)


@pytest.mark.slow
def test_where_the_pack_is_given_nothing_is_withheld_because_the_floor_would_leave_the_documented_share() -> None:
    seeded = [each for each in CONDITIONS if each.seeds]
    assert seeded
    for condition in seeded:
        [choice] = [choice for choice in condition.choices() if choice.kind == "retrieval"]
        assert (choice.settings["coverage"], choice.settings["share_of_best"]) == (0.0, 0.0)
    tasks = load_suite(lights().suite).tasks
    with Bank.create("memory:") as bank:
        import_paths(bank, [lights().seed])
        # As runs are given them, which ask for no polarity: a guardrail that fits less than a strategy is withheld.
        made = [build_context(task.question, source=source(), bank=bank, layers=("L2",)).retrievals for task in tasks]
        found = {
            polarity: sum(bool(each.hits) for retrievals in made for each in retrievals if each.polarity == polarity)
            for polarity in ("success", "failure")
        }
    text = " ".join((ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").split())
    said = f"only {found['success']} of the {len(tasks)} tasks are given one of its strategies, {found['failure']} a"
    assert said in text


def test_every_setting_of_a_loop_is_a_switch_of_a_condition() -> None:
    """But for models and texts, which conditions share; the policy, which a bank has; and code without walls."""
    elsewhere = {"lm", "sub_lm", "judge_lm", "extractor_lm", "constraints", "consolidation", "unsafe_local"}
    assert {*LoopSettings.__struct_fields__} - {*Condition.__struct_fields__} == elsewhere


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ONE + "layer = []", "x.toml: condition 'a' has no setting 'layer'; did you mean 'layers'?"),
        (HEAD + "[shared]\nlayer = []\n[[condition]]\nname = 'a'", "[shared] has no setting 'layer'"),
        ("repeats = 3\n" + ONE, "an experiment has no setting 'repeats'; did you mean 'repetitions'?"),
        (ONE + "layers = ['L9']", "condition 'a': no layer is called 'L9'; there are: L0, L1, L2, L3"),
        (ONE + "budgets = { L9 = 1 }", "condition 'a': no layer is called 'L9'"),
        (ONE + "executor = 'rml'", "condition 'a': there is no executor 'rml'"),
        (ONE + "judge = 'lmm'", "condition 'a': there is no judge 'lmm'"),
        (ONE + "judge = 'gold'", "knows the right answer"),
        (ONE + "judge = 'none'\nsupervised = true", "supervised lets the right answer judge"),
        (ONE + "judge = 'none'\nextract = true", "nothing is learned from runs that nobody judged"),
        (ONE + "guide = 'lights'", "a guide reaches an agent in L3"),
        (ONE + "rollouts = 99", "99 rollouts"),
        (ONE + "mode = 'autos'", "it is one of: 'auto', 'both', 'tools' - at `condition[0].mode`"),
        (ONE + "policies.retrievals.k = 1", "no policies of kind 'retrievals' can be set; did you mean 'retrieval'?"),
        (ONE + "policies.retrieval.kk = 1", "retrieval policy bm25-3 has no setting 'kk'; did you mean 'k'?"),
        (ONE + "policies.consolidation.name = 'dedupe'", "no consolidation policy 'dedupe'; did you mean 'dedup'?"),
        (ONE + "policies.forgetting.version = 9", "has no version 9"),
        (ONE + "[[condition]]\nname = 'A'", "two conditions are called 'a': their trials would be the same"),
        (ONE + "layers = ['L2']", "the condition 'a' is given memory, and no baseline"),
        ("baseline = 'a'\n" + ONE + "mode = 'tools'", "the baseline 'a' is given memory itself"),
        ("baseline = 'b'\n" + ONE, "no condition is called 'b'"),
        ("contrasts = [['a', 'a']]\n" + ONE, "not one with itself"),
        (HEAD, "0 conditions"),
        (HEAD + "condition = 3", "begin each condition with [[condition]]"),
        (HEAD + "shared = 3\n[[condition]]\nname = 'a'", "shared must be a table"),
        (HEAD + "[[condition]]\nname = '../a'", "can't be the name of a condition"),
        (HEAD + "[[condition]]\nabout = 'a'", "missing required field `name`"),
        ("orders = 0\n" + ONE, "Expected `int` >= 1 - at `orders`"),
        ("orders = 9000\nrepetitions = 9000\n" + ONE, "81,000,000 trials"),
        ("name = ", "it is not TOML"),
        ("a = " + 5_000 * "[", "it is not TOML"),
        (ONE + "[models.agent]\nmodel = 'sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "key"),
        (ONE + "[models.writer]\nmodel = 'openai/x'", "writer"),
        (
            HEAD + 'metrics = ["succes"]\n[[condition]]\nname = "a"',
            "no metric is called 'succes'; did you mean 'success'",
        ),
        (HEAD + 'metrics = ["tokens", "tokens"]\n[[condition]]\nname = "a"', "named twice"),
        (HEAD + '[[condition]]\nname = "Base"', "a condition can't be called 'Base'"),
    ],
)
def test_what_is_unknown_or_impossible_is_refused_with_what_may_be_meant(text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_experiment(text.encode(), "x.toml")
    assert said in str(refused.value) and str(refused.value).startswith("x.toml: ")


def test_the_recorded_definition_names_a_script_without_its_place_on_this_machine() -> None:
    facts = tomllib.loads(ONE + "[models.agent]\nmodel = 'script:/srv/scripts/turns.toml'")
    text = parse_experiment(to_toml(facts).encode()).to_toml()
    assert "script:turns" in text and "/srv/scripts" not in text


_PLAIN = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(st.characters(codec="utf-8")))
_KEYS = st.text(st.characters(codec="utf-8"), max_size=5)


@given(
    st.dictionaries(
        _KEYS,
        st.one_of(
            _PLAIN,
            st.lists(_PLAIN, max_size=3),
            st.dictionaries(_KEYS, _PLAIN, max_size=3),
            st.lists(
                st.dictionaries(_KEYS, _PLAIN | st.dictionaries(_KEYS, _PLAIN, max_size=2)), min_size=1, max_size=3
            ),
        ),
        max_size=5,
    )
)
def test_toml_is_read_back_as_the_data_that_it_was_written_from(facts: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(facts)) == facts


def test_an_unknown_name_is_answered_with_the_nearest_experiment() -> None:
    with pytest.raises(BadInput, match="no experiment is called 'E99'; did you mean 'E9'"):
        load_experiment("E99")
