"""`impact`, `show --tree` and `query` over a small bank in which a wrong verdict misled two runs."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.events import ArtifactMaterialised, ContextBuilt, NoteLogged, Reliance, RunJudged
from rbank_es.extraction.candidates import consolidate
from rbank_es.projections.lineage_edges import LineageNode
from rbank_es.projections.provenance import PATH, RELATIONS
from tests.cli.misled import HEIGHT, drawn, judged, learned, misled_bank, ran
from tests.cli_runner import SAMPLE, fails, run
from tests.lineage_paths import followed
from tests.pools import uuid_of

JUDGMENT = uuid_of(1, kind=0xB)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the bank, which commands only look at."""
    folder = tmp_path_factory.mktemp("misled")
    with misled_bank(folder / "logs" / "misled") as bank:
        # A judge was shown HEIGHT; and what the misled run taught supports HEIGHT again, which closes a cycle.
        bank.append([*ran("judged"), RunJudged(
            id=JUDGMENT, run="judged", purpose="learning", verdict="success", judge="lm", judge_version="1", kind="lm",
            calls=("call-1",), precedents=(HEIGHT.id,),
        )])  # fmt: skip
        again = Reliance(run="judged", verdict="success", judgment=JUDGMENT)
        consolidate(bank, [replace(drawn(HEIGHT, ("judged", "success")), relied=(again,))])
        learned(bank, HEIGHT, ("lucky", "success"))
        bank.append(NoteLogged(note='{"a": 1}'))
    return folder


def impact(place: Path, thing: str, *more: str, bank: str = "misled") -> Any:
    return run("impact", bank, thing, "--json", *more, cwd=place).json


def refused(place: Path, words: str, *arguments: str) -> None:
    assert words in fails(*arguments, cwd=place)


def closure(place: Path, kind: str, name: str, bank: str = "misled") -> set[tuple[str, str]]:
    """What is downstream, by brute force over the rows of the lineage."""
    opened, _, point = bank.partition("@")
    with Bank.open(place / "logs" / opened) as log, log.as_of(point or None) as view:
        return {(node.kind, node.name) for node in followed(view.edges(), LineageNode(kind, name))}


# ---------------------------------------------------------------- impact


@pytest.mark.slow
def test_a_context_tells_of_the_memory_graph_and_a_dry_run_records_it_in_the_settings(place: Path) -> None:
    asked = ("--ont", "lights", "--task", "Which lights are there?", "--memory-graph", "--json")
    assert "memory_query" in run("context", "misled", *asked, cwd=place).json["text"]
    assert "memory_query" not in run("context", "misled", *asked[:4], "--json", cwd=place).json["text"]
    told = run("run", "misled", *asked, "--dry-run", cwd=place).json
    assert told["settings"]["memory_graph"] is True and "memory_query" in told["tasks"][0]["context"]


# ---------------------------------------------------------------- show --tree


def flat(tree: Any) -> set[tuple[str, str]]:
    assert tree["hidden"] == {}
    return {(tree["kind"], tree["id"])}.union(*map(flat, tree["branches"]))


def test_every_node_of_an_answer_can_be_asked_about_by_its_kind_and_its_id(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        for node in bank.lineage("run", "wrong").nodes:
            back = bank.lineage(node.kind, node.id, "causes")
            assert (back.thing.kind, back.thing.id) == (node.kind, node.id)
            assert ("run", "wrong") in {(each.kind, each.id) for each in back.nodes}


@pytest.mark.slow
def test_a_judgment_leads_back_to_the_call_that_gave_it(place: Path) -> None:
    """A call that no event of this bank records is named all the same."""
    facts = run("show", "misled", "judged", "--tree", "--json", cwd=place).json
    kinds = {branch["kind"] for branch in facts["effects"]["tree"]["branches"]}
    assert {"judgment", "call"} <= kinds
    assert "of which this bank has no more than the name" in run("show", "misled", "judged", "--tree", cwd=place).out


@pytest.mark.slow
def test_a_guide_leads_from_the_run_that_wrote_it_to_the_runs_that_were_given_its_summary(place: Path) -> None:
    shutil.copytree(SAMPLE, place / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    with Bank.open(place / "logs" / "sample") as bank:
        [guide] = bank.events(types={"artifact_materialised"})
        # The sample has no guide from a file, so whoever was given one was given this one.
        contexts = [event for event in bank.events(types={"context_built"}) if isinstance(event, ContextBuilt)]
        given = {event.run for event in contexts if any(use.layer == "L3" and use.chars for use in event.layers)}
    assert isinstance(guide, ArtifactMaterialised) and guide.run is not None and len(given) > 3
    facts = impact(place, str(guide.seq), bank="sample")
    assert given <= {node["id"] for node in facts["nodes"] if node["kind"] == "run"}
    assert facts["counts"] == Counter(kind for kind, _ in closure(place, "artifact", guide.id, "sample"))
    assert ("artifact", guide.id) in closure(place, "run", guide.run, "sample")
    asked = f"SELECT ?x {{ <urn:rbank-es:artifact:{guide.id}> rbank:summarised_in/rbank:given_to ?x }}"
    rows = run("query", "sample", "--sparql", asked, "--json", cwd=place).json["rows"]
    assert {row["x"]["value"].rpartition(":")[2] for row in rows} == given
    said = run("show", "sample", f"run:{min(given)}", "--tree", cwd=place).out
    assert f"artifact at {guide.seq}: guide" in said


@pytest.mark.slow
def test_what_came_before_a_support_or_a_restoration_is_no_effect_of_it(place: Path) -> None:
    """Runs and prompts were counted below each decision that supports an item, whenever they had been given it."""
    with Bank.create(place / "logs" / "late") as bank:
        for run_, later in (("first", "early"), ("second", "middle")):
            bank.append([*ran(run_), judged(run_, "success")])
            learned(bank, HEIGHT, (run_, "success"))
            bank.append([*ran(later, HEIGHT.id)])
        bank.retract(HEIGHT.id, because="it may be wrong")
        bank.restore(HEIGHT.id, because="it is right")
        bank.append([*ran("late", HEIGHT.id)])
        [restored] = bank.events(types={"memories_restored"})
    wanted = {
        "first": {"early", "middle", "late"}, "second": {"middle", "late"}, str(restored.seq): {"late"},
    }  # fmt: skip
    for thing, runs in wanted.items():
        facts = impact(place, thing, bank="late")
        assert {node["id"] for node in facts["nodes"] if node["kind"] == "run"} == runs
        assert (facts["counts"]["run"], facts["counts"]["context"], facts["counts"]["item"]) == (
            len(runs),
            len(runs),
            1,
        )
    causes = flat(run("show", "late", "run:early", "--tree", "--json", cwd=place).json["causes"]["tree"])
    assert ("run", "first") in causes and ("run", "second") not in causes
    causes = flat(run("show", "late", "run:late", "--tree", "--json", cwd=place).json["causes"]["tree"])
    assert {("run", "first"), ("run", "second"), ("restoration", restored.id)} <= causes


# ---------------------------------------------------------------- query


@pytest.mark.slow
def test_a_query_and_impact_say_the_same(place: Path) -> None:
    path, every = ("|".join(f"rbank:{name}" for name in each) for each in (PATH, RELATIONS))
    for kind, name in (("item", HEIGHT.id), ("run", "lucky")):
        sparql = f"SELECT DISTINCT ?x {{ <urn:rbank-es:{kind}:{name}> ({path})*/({every}) ?x }}"
        facts = run("query", "misled", "--sparql", sparql, "--limit", "1000", "--json", cwd=place).json
        found = {tuple(row["x"]["value"].split(":", 3)[2:]) for row in facts["rows"]} - {(kind, name)}
        assert Counter(kind for kind, _ in found if kind != "span") == impact(place, name)["counts"]


def test_a_query_is_read_from_a_file_of_four_bytes_for_each_of_its_characters(place: Path) -> None:
    file, query = place / "large.rq", "ASK { ?i a rbank:Item } #"
    file.write_text(query + "\U0001f989" * (20_000 - len(query)))
    assert run("query", "misled", "--sparql", "@large.rq", cwd=place).out == "yes\n"
    file.write_text("#" * 80_001)
    refused(place, "large.rq in bytes", "query", "misled", "--sparql", "@large.rq")
