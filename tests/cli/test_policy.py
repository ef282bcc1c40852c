"""`policy`: what is in force, and its changes, which govern what comes after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.events import PolicyChoice, PolicySet
from rbank_es.policies import default_policies
from tests.cli_runner import run


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
