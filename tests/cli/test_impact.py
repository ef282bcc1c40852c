"""`impact`, `show --tree` and `query` over a small bank in which a wrong verdict misled two runs."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.cli.query import PREDICATES
from rbank_es.events import ArtifactMaterialised, ContextBuilt, MemoriesRetracted, NoteLogged, Reliance, RunJudged
from rbank_es.extraction.candidates import consolidate
from rbank_es.projections.lineage_edges import LineageNode
from rbank_es.projections.provenance import PATH, RELATIONS
from tests.cli.misled import HEIGHT, SORTED, WARNING, drawn, judged, learned, misled_bank, ran
from tests.cli_runner import SAMPLE, digest_of, fails, run
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


def test_an_event_is_named_by_its_position_and_one_of_a_run_stands_for_the_run(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        seqs = {(type(event).__name__, getattr(event, "run", None)): event.seq for event in bank.events()}
    by_judgment = impact(place, str(seqs["RunJudged", "wrong"]))
    assert by_judgment["thing"]["kind"] == "judgment"
    assert impact(place, str(seqs["ContextBuilt", "misled"]))["thing"]["kind"] == "context"
    assert impact(place, str(seqs["RunFinished", "misled"]))["thing"] == impact(place, "misled")["thing"]
    decided = impact(place, str(seqs["MemoriesConsolidated", None]))
    # The last one: nobody was given the item since.
    assert decided["thing"]["kind"] == "consolidation" and decided["counts"] == {"item": 1, "decision": 1}
    note = run("impact", "misled", str(seqs["NoteLogged", None]), cwd=place, code=2)
    assert "no lineage leads from note_logged" in note.err


@pytest.mark.slow
def test_what_ends_an_item_has_not_led_to_the_runs_that_were_given_it_before(place: Path) -> None:
    run("reject", "misled", HEIGHT.id, "--by", "ann", "--because", "Towers differ.", cwd=place)
    with Bank.open(place / "logs" / "misled") as bank:
        [rejection] = [event for event in bank.events() if isinstance(event, MemoriesRetracted)]
    found = impact(place, str(rejection.seq))
    assert [(node["id"], node["relation"]) for node in found["nodes"]] == [(HEIGHT.id, "ended")]
    assert impact(place, HEIGHT.id)["counts"]["run"] == 2
    causes = run("show", "misled", "misled", "--tree", "--json", "--depth", "9", cwd=place).out
    assert rejection.id not in causes and HEIGHT.id in causes
    assert rejection.id in run("show", "misled", HEIGHT.id, "--tree", "--json", cwd=place).out


def test_the_tree_and_the_list_are_bounded_and_the_counts_are_not(place: Path) -> None:
    whole = impact(place, HEIGHT.id)
    cut = impact(place, HEIGHT.id, "--limit", "2")
    assert len(cut["nodes"]) == 2 and cut["counts"] == whole["counts"]
    said = run("impact", "misled", HEIGHT.id, "--depth", "1", "--width", "1", cwd=place).out
    assert "and " in said and said.count("─ ") == 3 and "more" in said
    refused(place, "depth", "impact", "misled", HEIGHT.id, "--depth", "0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("impact", "misled", "lucky", "--limit", "2"), "add --json"),
        (("show", "misled", "lucky", "--depth", "2"), "add --tree"),
        (("tools", "--memory-graph"), "name it with --bank"),
        (("context", "--memory-graph", "--task", "Which?"), "name BANK"),
    ],
)
def test_an_option_without_effect_is_refused(place: Path, arguments: tuple[str, ...], words: str) -> None:
    refused(place, words, *arguments)


@pytest.mark.slow
def test_a_context_tells_of_the_memory_graph_and_a_dry_run_records_it_in_the_settings(place: Path) -> None:
    asked = ("--ont", "lights", "--task", "Which lights are there?", "--memory-graph", "--json")
    assert "memory_query" in run("context", "misled", *asked, cwd=place).json["text"]
    assert "memory_query" not in run("context", "misled", *asked[:4], "--json", cwd=place).json["text"]
    told = run("run", "misled", *asked, "--dry-run", cwd=place).json
    assert told["settings"]["memory_graph"] is True and "memory_query" in told["tasks"][0]["context"]


@pytest.mark.slow
def test_what_led_to_nothing_says_so(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        bank.append(ran("idle"))
    assert "nothing on record has followed from it" in run("impact", "misled", "idle", cwd=place).out
    assert impact(place, "idle")["counts"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("thing", ["nobody", "item:nothing", "run:none", "999999", "event:0"])
@pytest.mark.parametrize("command", ["impact", "show"])
def test_an_unknown_thing_is_refused_with_advice(place: Path, command: str, thing: str) -> None:
    more = ["--tree"] if command == "show" else []
    refused(place, thing.split(":")[-1], command, "misled", thing, *more)


@pytest.mark.slow
def test_erased_words_are_marked_and_the_lineage_stays(place: Path) -> None:
    before = impact(place, "wrong")["counts"]
    with Bank.open(place / "logs" / "misled") as bank:
        bank.erase(item=HEIGHT.id, reason="asked to")
    after = impact(place, "wrong")
    assert after["counts"] == before
    for said in (
        run("impact", "misled", "wrong", cwd=place).out,
        run("show", "misled", HEIGHT.id, "--tree", cwd=place).out,
    ):
        assert "[erased]" in said and HEIGHT.title not in said
    titles = run("query", "misled", "--sparql", "SELECT ?t { ?i a rbank:Item ; prov:value ?t }", cwd=place).out
    assert WARNING.title in titles and HEIGHT.title not in titles


# ---------------------------------------------------------------- show --tree


def test_a_tree_leads_back_to_the_runs_and_forward_to_what_was_drawn_from_uses(place: Path) -> None:
    said = run("show", "misled", HEIGHT.id, "--tree", cwd=place).out
    back, _, onward = said.partition("led to")
    for words in (
        "decision to add (dedup-",
        "candidate",
        "extraction at",
        "judgment at",
        "run wrong (submitted, success)",
    ):
        assert words in back, words
    for words in ("used in run misled (submitted, failure)", "taught extraction at", WARNING.title, SORTED.title):
        assert words in onward, words
    facts = run("show", "misled", HEIGHT.id, "--tree", "--json", cwd=place).json
    assert flat(facts["effects"]["tree"]) - {("item", HEIGHT.id)} == closure(place, "item", HEIGHT.id)
    assert ("run", "wrong") in flat(facts["causes"]["tree"])


def flat(tree: Any) -> set[tuple[str, str]]:
    assert tree["hidden"] == {}
    return {(tree["kind"], tree["id"])}.union(*map(flat, tree["branches"]))


@pytest.mark.slow
def test_a_run_and_an_event_have_trees(place: Path) -> None:
    said = run("show", "misled", "misled", "--tree", cwd=place).out
    assert f"item {HEIGHT.id} (active)" in said.partition("led to")[0] and WARNING.title in said
    said = run("show", "misled", f"event:{JUDGMENT}", "--tree", cwd=place).out
    assert "run judged" in said.partition("led to")[0] and HEIGHT.title in said.partition("led to")[2]


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

MISLED = """
SELECT ?title ?run {
    ?item a rbank:Item ; prov:value ?title ; rbank:used_in ?r . ?r rbank:verdict "failure" ; prov:value ?run
}
"""


@pytest.mark.slow
def test_a_query_tells_whom_an_item_misled_as_of_any_point(place: Path) -> None:
    facts = run("query", "misled", "--sparql", MISLED, "--json", cwd=place).json
    assert [row["title"]["value"] for row in facts["rows"]] == [HEIGHT.title]
    (place / "misled.rq").write_text(MISLED)
    said = run("query", "misled", "--sparql", "@misled.rq", cwd=place).out
    assert HEIGHT.title in said and "(misled)" in said
    assert "nothing found" in run("query", "misled@5", "--sparql", "@misled.rq", cwd=place).out
    assert run("query", "misled", "--sparql", "ASK { ?i a rbank:Item }", cwd=place).out == "yes\n"


@pytest.mark.slow
def test_a_query_and_impact_say_the_same(place: Path) -> None:
    path, every = ("|".join(f"rbank:{name}" for name in each) for each in (PATH, RELATIONS))
    for kind, name in (("item", HEIGHT.id), ("run", "lucky")):
        sparql = f"SELECT DISTINCT ?x {{ <urn:rbank-es:{kind}:{name}> ({path})*/({every}) ?x }}"
        facts = run("query", "misled", "--sparql", sparql, "--limit", "1000", "--json", cwd=place).json
        found = {tuple(row["x"]["value"].split(":", 3)[2:]) for row in facts["rows"]} - {(kind, name)}
        assert Counter(kind for kind, _ in found if kind != "span") == impact(place, name)["counts"]


@pytest.mark.slow
def test_rows_are_limited_and_nothing_is_written(place: Path) -> None:
    before = digest_of(place / "logs")
    done = run("query", "misled", "--sparql", "SELECT ?s { ?s ?p ?o }", "--limit", "3", cwd=place)
    assert "there is more than 3 rows" in done.err and len(done.out.splitlines()) == 4
    assert PREDICATES in done.err and "sparql_schema" not in done.err
    assert "rbank:used_in" in run("query", "misled", "--sparql", PREDICATES.partition(" lists")[0], cwd=place).out
    run("impact", "misled", HEIGHT.id, cwd=place)
    assert digest_of(place / "logs") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sparql", "words"),
    [
        ("SELECT", "query"),
        ("DELETE WHERE { ?s ?p ?o }", "changes data"),
        ("SELECT ?x { SERVICE <http://127.0.0.1:9/> { ?x ?y ?z } }", "SERVICE"),
        ("SELECT ?x { ?x rbank:used_inn ?y }", "rbank:used_in"),
        ("@missing.rq", "missing.rq"),
    ],
)
def test_a_query_that_can_t_be_run_is_refused(place: Path, sparql: str, words: str) -> None:
    refused(place, words, "query", "misled", "--sparql", sparql)


@pytest.mark.slow
def test_the_verdicts_of_two_judges_are_two_nodes(place: Path) -> None:
    with Bank.open(place / "logs" / "misled") as bank:
        bank.append(judged("wrong", "failure", "human"))
    counts = impact(place, "wrong")["counts"]
    assert counts["judgment"] == closure_counts(place, "wrong")["judgment"] >= 2


def closure_counts(place: Path, name: str) -> Counter[str]:
    return Counter(kind for kind, _ in closure(place, "run", name))


def test_a_query_is_read_from_a_file_of_four_bytes_for_each_of_its_characters(place: Path) -> None:
    file, query = place / "large.rq", "ASK { ?i a rbank:Item } #"
    file.write_text(query + "\U0001f989" * (20_000 - len(query)))
    assert run("query", "misled", "--sparql", "@large.rq", cwd=place).out == "yes\n"
    file.write_text("#" * 80_001)
    refused(place, "large.rq in bytes", "query", "misled", "--sparql", "@large.rq")
