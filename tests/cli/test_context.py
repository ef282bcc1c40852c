"""`rbank-es context`: exactly what an agent would be told, its budget table, and not a byte written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from rbank_es.cli.shared.arguments import parse_budget
from rbank_es.context.assembly import build_context
from rbank_es.context.layer_sections import BUDGETS
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.ontology.loader import load_ontology
from tests.cli_runner import ROOT, SAMPLE, run

TASK = "Which lights are in service today?"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a copy of the sample bank."""
    folder = tmp_path_factory.mktemp("context")
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    run("project", "sample", cwd=folder)
    return folder


def shown(place: Path, *arguments: str) -> dict[str, Any]:
    """What the command gives programs."""
    facts = run("context", *arguments, "--task", TASK, "--json", cwd=place).json
    assert isinstance(facts, dict)
    return facts


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


# ---------------------------------------------------------------- what can't be


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
