"""`drift`: the items, patterns and guides that name terms which an ontology changed, and the proposals to end them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.data import lights
from rbank_es.events import ArtifactMaterialised, ContextBuilt, LayerUse, RunStarted
from rbank_es.lab.generated_suite import generate, second_version
from rbank_es.policies import changed, default_policies
from tests.cli.misled import judged
from tests.cli_runner import run

NS = "https://lights.example/ns#"
TOWER = ("Take the height of the building", "lt:towerHeight is the building, from base to lantern.")
PATTERN = (
    "Names of lights by year",
    "SELECT ?name WHERE {\n  ?outage a lt:Outage ;\n    lt:ofLight/lt:name ?name\n}\nORDER BY ?name",
)
FULL = ("Gannet Light is old", "See <https://lights.example/light/gannet> and https://lights.example/ns#Buoy.")
PLAIN = ("Ask for classes first", "Call g_classes() before a query; an outage has no tower height.")
BARE = ("Buildings are towers", "The property towerHeight is the building; its class is 'Outage'.")
L3 = (LayerUse(layer="L3", chars=50),)
GUIDE = "## Summary\n\nLights have lt:focalHeight and lt:towerHeight.\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of items and a guide, and two versions of the lights; for tests that only look."""
    tmp_path = tmp_path_factory.mktemp("drift")
    text = lights().ontology.read_text(encoding="utf-8")
    (tmp_path / "old.ttl").write_text(text)
    new = text.replace("lt:towerHeight", "lt:buildingHeight").replace("lt:Outage", "lt:Gap").replace("Outage", "Gap")
    (tmp_path / "new.ttl").write_text(new)
    with Bank.create(tmp_path / "logs" / "notes") as bank:
        ids = [
            bank.remember(*each, src="success", domain="lights").item for each in (TOWER, PATTERN, FULL, PLAIN, BARE)
        ]
        guide = ArtifactMaterialised(artifact="g1", kind="guide", ontology="lights", chars=len(GUIDE), text=GUIDE)
        [written] = bank.append(guide).events
        for name, verdict in (("r1", "success"), ("r2", "failure")):
            given = (written.id,) if name == "r1" else ()  # the other run had a guide from a file
            bank.append(
                [
                    RunStarted(run=name, ontology="lights", scripted=True),
                    ContextBuilt(run=name, chars=90, items=(ids[0],), artifacts=given, layers=L3, texts=("x",)),
                    judged(name, verdict),  # type: ignore[arg-type]
                ]
            )
    return tmp_path


@pytest.fixture(scope="module")
def facts(made: Path) -> Any:
    """What changed from the old version to the new one."""
    return drift(made, "--ont", "new.ttl", "--old", "old.ttl")


def drift(place: Path, *options: str, bank: str = "notes") -> Any:
    return run("drift", bank, *options, "--json", cwd=place).json


def by_title(facts: Any) -> dict[str, Any]:
    return {each["title"]: each for each in facts["rows"]}


@pytest.mark.slow
def test_a_proposal_can_be_typed_and_nothing_is_done_before_that(facts: Any, place: Path) -> None:
    with Bank.open(place / "logs" / "notes") as bank:
        assert bank.position == facts["position"]
    run(*shlex.split(by_title(facts)[TOWER[0]]["command"])[1:], cwd=place)
    assert TOWER[0] not in by_title(drift(place, "--ont", "new.ttl", "--old", "old.ttl"))
    assert TOWER[0] in by_title(drift(place, "--ont", "new.ttl", "--old", "old.ttl", bank="notes@HEAD~2"))


@pytest.mark.slow
def test_an_individual_that_left_the_data_is_gone(place: Path) -> None:
    (place / "moved.ttl").write_text(re.sub(r"\bl:gannet\b", "l:solan", (place / "old.ttl").read_text()))
    [term] = by_title(drift(place, "--ont", "moved.ttl", "--old", "old.ttl"))[FULL[0]]["terms"]
    assert (term["written"], term["changes"][0]["kind"]) == ("https://lights.example/light/gannet", None)


@pytest.mark.slow
def test_a_changed_range_is_listed_apart(place: Path) -> None:
    text = (place / "old.ttl").read_text()
    (place / "wider.ttl").write_text(text + "\nlt:towerHeight rdfs:domain lt:Area .\n")
    facts = drift(place, "--ont", "wider.ttl", "--old", "old.ttl")
    assert {each["title"]: each["broken"] for each in facts["rows"]} == {
        TOWER[0]: False,
        BARE[0]: False,
        "guide to lights": False,
    }
    said = run("drift", "notes", "--ont", "wider.ttl", "--old", "old.ttl", cwd=place).out
    assert "name terms that changed: 3 texts" in said and "domain was" in said


@pytest.mark.slow
def test_broken_texts_come_before_those_that_were_used_more(place: Path) -> None:
    text = re.sub(r"\bOutage\b", "Gap", (place / "old.ttl").read_text())
    (place / "both.ttl").write_text(text + "\nlt:towerHeight rdfs:domain lt:Area .\n")
    found = [each["broken"] for each in drift(place, "--ont", "both.ttl", "--old", "old.ttl")["rows"]]
    assert True in found and False in found and found == sorted(found, reverse=True)


def test_the_same_ontology_drifts_nowhere(made: Path) -> None:
    assert drift(made, "--ont", "old.ttl", "--old", "old.ttl")["rows"] == []
    assert "terms: 0 of 6" in run("drift", "notes", "--ont", "lights", cwd=made).out


def test_erased_words_are_counted_and_not_guessed(place: Path) -> None:
    with Bank.open(place / "logs" / "notes") as bank:
        bank.erase(item=next(iter(bank.state().items)))
    facts = drift(place, "--ont", "new.ttl", "--old", "old.ttl")
    assert facts["erased"] == 1 and set(by_title(facts)) == {PATTERN[0], BARE[0], "guide to lights"}


def test_the_words_of_items_neither_reach_the_terminal_raw_nor_become_part_of_a_command(place: Path) -> None:
    with Bank.open(place / "logs" / "notes") as bank:
        bank.remember("An odd item", f"<{NS}x\x1b[2J\u202e> and {NS}$(reboot)';y lt:towerHeight", src="success")
    said = run("drift", "notes", "--ont", "new.ttl", cwd=place).out
    assert "\x1b" not in said and "\u202e" not in said
    proposal = by_title(drift(place, "--ont", "new.ttl"))["An odd item"]["command"]
    words = shlex.split(proposal)
    assert words[:3] == ["rbank-es", "retract", "notes"] and words[4] == "--because" and len(words) == 6


@pytest.mark.slow
def test_the_names_of_an_ontology_do_not_reach_the_terminal_raw(place: Path) -> None:
    odd = f"<{NS}build\u202eing>"
    (place / "odd.ttl").write_text((place / "old.ttl").read_text().replace("lt:towerHeight", odd))
    said = run("drift", "notes", "--ont", "odd.ttl", "--old", "old.ttl", cwd=place).out
    assert "same label" in said and "\u202e" not in said


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_bare_names_find_in_a_second_version_what_whole_names_find_and_no_more(seed: int, tmp_path: Path) -> None:
    first, later = generate(seed, 20), second_version(seed, 20)
    (tmp_path / "old.ttl").write_text(first.turtle)
    (tmp_path / "new.ttl").write_text(later.generated.turtle)
    [namespace] = {each.term.rpartition("#")[0] + "#" for each in later.broken}
    terms = dict(re.findall(r"^v:(\w+) a owl:(Class|\w*Property)", first.turtle, re.MULTILINE))
    policies = changed(default_policies(), {"consolidation": {"name": "append"}})
    with Bank.create(tmp_path / "logs" / "notes", policies=policies, unsafe_no_sync=True) as bank:
        for name, kind in terms.items():
            kind = "class" if kind == "Class" else "property"
            for way, text in (
                ("whole", f"<{namespace}{name}>"),
                ("bare", f"the {kind} {name}"),
                ("word", f"a {name} is"),
            ):
                bank.remember(f"{way} {name}", f"Ask for {text} there.", src="success")
    found: dict[str, set[str]] = {"whole": set(), "bare": set(), "word": set()}
    for title in by_title(drift(tmp_path, "--ont", "new.ttl", "--old", "old.ttl")):
        way, name = title.split()
        found[way].add(name)
    assert found["bare"] == found["whole"] and not found["word"]
    assert {each.term.rpartition("#")[2] for each in later.broken if each.change != "turned"} <= found["whole"]
