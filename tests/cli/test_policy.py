"""`policy`: what is in force, and its changes, which govern what comes after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.events import PolicyChoice, PolicySet
from rbank_es.policies import POLICIES, default_policies
from tests.cli_runner import run
from tests.effort import one_in


@pytest.fixture
def place(tmp_path: Path) -> Path:
    Bank.create(tmp_path / "notes", unsafe_no_sync=True).close()
    return tmp_path


def shown(place: Path, bank: str = "./notes", code: int = 0) -> dict[str, dict[str, Any]]:
    """The policies that the command shows, by kind."""
    return {each["kind"]: each for each in run("policy", bank, "--json", cwd=place, code=code).json["policies"]}


def test_every_kind_is_shown_with_its_settings_their_defaults_and_since_when(place: Path) -> None:
    found = shown(place)
    assert [(each["name"], each["version"], each["since_seq"]) for each in found.values()] == [
        (choice.name, choice.version, 2) for choice in default_policies()
    ]
    assert found["retrieval"]["settings"]["k"] == 6
    with Bank.open(place / "notes") as bank:
        assert bank.at().policies() == bank.policies()
        assert json.loads(bank.at().policies().json())["policies"] == list(found.values())
    people = run("policy", "./notes", cwd=place).out
    assert "retrieval: bm25-3 (since 2)" in people and "k_success" in people and "Default: 6" in people


def test_a_change_is_one_event_and_the_same_change_again_none(place: Path) -> None:
    changes = ("--set", "retrieval.k_success=2", "--set", "forgetting=bounded", "--set", "forgetting.max_items=9")
    done = run("policy", "./notes", *changes, "--why", "to try", "--by", "ann", "--json", cwd=place).json
    assert done["position"] == 3
    assert [(each["kind"], each["setting"], each["before"], each["after"]) for each in done["policies"]] == [
        ("retrieval", "k_success", 1, 2),
        ("forgetting", None, "never-1", "bounded-1"),
        ("forgetting", "max_items", 1_000, 9),
    ]
    again = run("policy", "./notes", *changes, "--json", cwd=place).json
    assert (again["last_seq"], again["policies"]) == (None, [])
    tried = run("policy", "./notes", "--set", "retrieval.k=9", "--dry-run", "--json", cwd=place).json
    assert (tried["last_seq"], tried["recorded"]) == (4, False)
    with Bank.open(place / "notes") as bank:
        assert bank.position == 3
        [*_, event] = bank.events(types={"policy_set"})
        assert isinstance(event, PolicySet) and (event.by, event.why, len(event.policies)) == ("ann", "to try", 9)
    found = shown(place)
    assert (found["retrieval"]["since_seq"], found["judging"]["since_seq"]) == (3, 2)
    assert shown(place, "./notes@2")["forgetting"]["name"] == "never"


def test_a_file_changes_what_it_names_and_leaves_the_rest(place: Path) -> None:
    (place / "rules.toml").write_text("[retrieval]\nversion = 1\nfloor = 0.5\n[admission]\nname = 'reviewed'\n")
    run("policy", "./notes", "--set", "retrieval.k=3", "--set", "retrieval.k_failure=0", cwd=place)
    run("policy", "./notes", "--set", "rules.toml", cwd=place)
    found = shown(place)
    settings = found["retrieval"]["settings"]
    assert (found["retrieval"]["version"], found["admission"]["name"]) == (1, "reviewed")
    assert (settings["k"], settings["k_failure"], settings["floor"]) == (3, 0, 0.5), "kept across the version"
    assert settings["weights"] == [1, 1, 1, 1] and "coverage" not in settings, "those of the new version"


def test_all_policies_are_listed_with_the_meaning_of_each_setting(tmp_path: Path) -> None:
    listed = run("policy", "--list", "--json", cwd=tmp_path).json
    assert {f"{each['kind']}:{each['policy']}" for each in listed} == {
        name for name in POLICIES.names() if POLICIES.package_of(name) is None
    }
    for each in listed:
        assert each["summary"]
        assert all("Default: " in one["meaning"] for one in each["settings"]), each
    assert "bounded-1" in run("policy", "--list", cwd=tmp_path).out


@pytest.mark.parametrize(
    ("given", "message"),
    one_in(
        3,
        [
            (["--set", "retrieval.k_succes=2"], "did you mean 'k_success'"),
            (["--set", "retreival.k=2"], "did you mean 'retrieval'"),
            (["--set", "retrieval=bm52"], "did you mean 'bm25'"),
            (["--set", "retrieval=bm25-9"], "no version 9 in this release; there are: 1, 2, 3"),
            (["--set", "retrieval.k=many"], "Expected `int`, got `str` - at `k`"),
            (["--set", "retrieval.k=1", "--set", "retrieval.k=2"], "given twice"),
            (["--set", "retrieval.=1"], "write kind.setting=value"),
            (["--set", "=1"], "write kind.setting=value"),
            (["--set", "missing.toml"], "no file 'missing.toml'; to change a setting, write KIND.SETTING=VALUE"),
            (["--why", "no reason"], "add --set"),
            (["--list"], "leave out BANK"),
        ],
    ),
)
def test_a_mistake_is_refused_with_advice_and_changes_nothing(place: Path, given: list[str], message: str) -> None:
    refused = run("policy", "./notes", *given, cwd=place, code=2)
    assert message in refused.err
    assert shown(place)["retrieval"]["since_seq"] == 2


def test_a_policy_of_an_unknown_version_is_named_and_another_can_be_put_in_force(place: Path) -> None:
    """It is shown as recorded, governs nothing by a default, and stays as it is when others are changed."""
    foreign = PolicyChoice(kind="retrieval", name="bm25", version=9, settings={"depth": 3})
    with Bank.open(place / "notes") as bank:
        bank.append(PolicySet(policies=(foreign,)))
    run("policy", "./notes", "--set", "forgetting=bounded", cwd=place)
    told = run("policy", "./notes", "--json", cwd=place, code=1)
    assert "bm25 has no version 9" in told.err
    assert json.loads(told.out)["policies"][0]["settings"] == {"depth": 3}
    assert "no version 9" in run("search", "./notes", "lamps", cwd=place, code=2).err
    run("policy", "./notes", "--set", "retrieval=bm25-2", cwd=place)
    assert run("search", "./notes", "lamps", "--json", cwd=place).json["hits"] == []
