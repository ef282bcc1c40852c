"""`rbank-es context`: exactly what an agent would be told, its budget table, and not a byte written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rbank_es.cli.shared.arguments import parse_budget
from rbank_es.context.assembly import build_context
from rbank_es.context.layer import BUDGETS
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.ontology.loader import load_ontology
from tests.cli_runner import ROOT, SAMPLE, digest_of, fails, on_terminal, run

TASK = "Which lights are in service today?"
CURATED = '[[constraint]]\ntext = "Kilns are never sold."\n'
MODEL = "<https://kilns.example/ns#Kiln> a <http://www.w3.org/2002/07/owl#Class> .\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a copy of the sample bank, and an ontology with curated constraints beside it."""
    folder = tmp_path_factory.mktemp("context")
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    run("project", "sample", cwd=folder)
    (folder / "kilns").mkdir()
    (folder / "kilns" / "model.ttl").write_text(MODEL)
    (folder / "kilns" / "model.constraints.toml").write_text(CURATED)
    (folder / "guide.md").write_text("# Kilns\n\n## Summary\n\nA kiln is hot.\n")
    return folder


def shown(place: Path, *arguments: str) -> dict[str, Any]:
    """What the command gives programs."""
    facts = run("context", *arguments, "--task", TASK, "--json", cwd=place).json
    assert isinstance(facts, dict)
    return facts


def layers(facts: dict[str, Any]) -> list[str]:
    return [layer["layer"] for layer in facts["layers"] if layer["text"]]


# ---------------------------------------------------------------- what is printed


@pytest.mark.slow
def test_it_prints_exactly_what_would_be_injected(place: Path) -> None:
    """The text of `build_context`, byte for byte, and after it a budget line for each layer."""
    facts = shown(place, "sample", "--ont", "lights")
    printed = run("context", "sample", "--ont", "lights", "--task", TASK, cwd=place).out
    assert printed.startswith(facts["text"] + "\n\nbudget\n")
    table = printed.split("\nbudget\n")[1].splitlines()
    assert [line.split()[0] for line in table[1:7]] == ["base", "L0", "L1", "L2", "L3", "all"]
    ontology = load_ontology(lights().ontology)
    without_bank = build_context(TASK, source=ontology, curated=lights().constraints, guide=lights().guide)
    assert shown(place, "--ont", "lights")["text"] == without_bank.text


def test_nothing_is_written(place: Path) -> None:
    """Not one byte of the bank, whatever is asked for."""
    before = digest_of(place / "logs")
    shown(place, "sample", "--ont", "lights", "--observed", "--slice", "--mode", "both")
    run("context", "sample@HEAD~9", "--ont", "lights", "--task", TASK, cwd=place)
    assert digest_of(place / "logs") == before


def test_the_same_input_gives_the_same_bytes(place: Path) -> None:
    """Twice the same text, from the files and from the cache."""
    assert shown(place, "sample", "--ont", "lights") == shown(place, "sample", "--ont", "lights")


# ---------------------------------------------------------------- what is chosen


def test_more_room_for_procedures_than_usual_says_that_it_is_an_experiment(place: Path) -> None:
    usual, more = (run("context", "--task", TASK, "--budget", f"L2={chars}", cwd=place) for chars in (600, 601))
    assert "experiment" not in usual.err
    assert "L2 has 601 characters instead of 600: that is an experiment" in more.err


def test_the_slice_names_what_the_task_names(place: Path) -> None:
    """Off by default: it would confound comparisons of layers."""
    assert "For this task" not in shown(place, "--ont", "lights")["text"]
    assert "For this task: Light" in shown(place, "--ont", "lights", "--slice")["text"]


def test_a_guide_is_given_shipped_or_none(place: Path) -> None:
    """Only its summary goes in."""
    assert "A kiln is hot." in shown(place, "--ont", "kilns/model.ttl", "--guide", "guide.md")["text"]
    assert "L3" not in layers(shown(place, "--ont", "kilns/model.ttl"))
    assert "An invented coast" in shown(place, "--ont", "lights")["text"]


def test_without_a_bank_and_an_ontology_there_are_the_base_instructions(place: Path) -> None:
    """Layers that have nothing to say are left out."""
    assert layers(shown(place)) == ["base"]
    assert layers(shown(place, "sample")) == ["base", "L2"]


def test_an_endpoint_is_described_and_not_asked(place: Path) -> None:
    """What the profile says goes into L1; nobody listens at that address."""
    assert "At this endpoint" in shown(place, "--endpoint", "uniprot")["text"]
    assert layers(shown(place, "--endpoint", "http://127.0.0.1:9/sparql"))[0] == "base"


@pytest.mark.slow
def test_on_a_narrow_terminal_the_table_gives_way(place: Path) -> None:
    """The text stays as it is injected; the table is cut to the terminal."""
    printed = on_terminal(
        "context", "--ont", "lights", "--task", TASK, cwd=place, columns=60, env={"NO_COLOR": "1"}
    ).out
    # Wrapped between words, and the same words.
    text = shown(place, "--ont", "lights")["text"]
    assert " ".join(text.split()) in " ".join(printed.split())
    assert max(map(len, printed.split("\nbudget\n")[1].splitlines())) <= 60


# ---------------------------------------------------------------- what can't be


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ont", "missing.ttl"), "missing.ttl"),
        (("nobank",), "nobank"),
        (("sample@nowhere",), "nowhere"),
        (("--budget", "L1"), "not a budget"),
        (("--budget", "L1=-4"), "not a budget"),
        (("--budget", "L9=4"), "L9"),
        (("--preset", "huge"), "huge"),
        (("--mode", "none"), "none"),
        (("--guide", "missing.md"), "missing.md"),
        (("--ont", "lights", "--constraints", "missing.toml"), "missing.toml"),
        (("--ont", "lights", "--constraints", "guide.md"), "guide.md"),
        (("--ont", "lights", "--endpoint", "uniprot"), "not both"),
        (("--ont", "lights", "--void", "guide.md"), "--endpoint"),
    ],
)
def test_bad_input_ends_in_one_sentence(place: Path, arguments: tuple[str, ...], words: str) -> None:
    """What is missing or wrong is named; exit code 2."""
    assert words in fails("context", *arguments, "--task", TASK, cwd=place)


def test_a_context_needs_a_task(place: Path) -> None:
    """Procedures are chosen by it."""
    assert "--task" in fails("context", "sample", cwd=place)


def test_a_budget_is_a_layer_and_a_number() -> None:
    """Layers are upper case, `base` isn't."""
    assert [parse_budget(text) for text in ("L1=400", "l3 = 20", "base=0")] == [("L1", 400), ("L3", 20), ("base", 0)]
    for text in ("", "L1", "L1=", "L1=a", "L1=1.5", "L1=²"):
        with pytest.raises(BadInput, match="not a budget"):
            parse_budget(text)


# ---------------------------------------------------------------- the document

DOCUMENT = (ROOT / "docs" / "context.md").read_text()


def test_the_document_tells_the_budgets_as_they_are() -> None:
    """Both presets, layer by layer."""
    told = re.findall(r"^\| (base|L\d) \|.*\| ([\d,]+) \| ([\d,]+) \|$", DOCUMENT, re.MULTILINE)
    budgets = [(layer, int(full.replace(",", "")), int(lean.replace(",", ""))) for layer, full, lean in told]
    assert budgets == [(layer, size, BUDGETS["lean"][layer]) for layer, size in BUDGETS["full"].items()]
