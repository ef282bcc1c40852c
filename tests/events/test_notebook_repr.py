"""The short forms of values in a terminal and a notebook: never a payload, and hostile text as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank, Event, RunStarted, build_context, load_ontology, open_source
from rbank_es.events.notebook_repr import Shown
from rbank_es.lab.task_suite import load_suite
from tests.cli_runner import SAMPLE

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e" + "x" * 100_000
LINE_CHARS = 1_000


def values() -> dict[str, Shown]:
    lights = load_ontology("rbank_es/data/lights.ttl")
    source = open_source(lights)
    with Bank.open(SAMPLE) as bank:
        found = {
            "state": bank.state(),
            "replayed": bank.replay(),
            "difference": bank.difference(100),
            "hit": bank.search("tower")[0],
            "context": build_context("Which lights are tall?", source=source, bank=bank),
        }
    checked, answer = source.query("SELECT ?s WHERE { ?s ?p ?o }")
    source.close()
    return (
        found
        | {"ontology": lights, "source": source, "checked": checked, "answer": answer, "schema": source.schema}
        | {"suite": load_suite("lights")}
    )


def test_what_holds_much_is_shown_in_a_line_with_its_name() -> None:
    for name, value in values().items():
        assert repr(value).startswith(type(value).__name__) and len(repr(value)) < LINE_CHARS, name
        assert "<table>" in value._repr_html_() or "<pre>" in value._repr_html_(), name


def test_print_of_a_context_prints_its_text(tmp_path: Path) -> None:
    context = values()["context"]
    assert str(context) == context.text and context.text[:40] in context._repr_html_()  # type: ignore[attr-defined]


@pytest.mark.parametrize("form", [repr, Event._repr_html_])
def test_hostile_text_in_an_event_is_cut_and_obeyed_by_nothing(form: object) -> None:
    shown = form(RunStarted(run="r", task=HOSTILE))  # type: ignore[operator]
    assert len(shown) < LINE_CHARS and "\x1b" not in shown and "\u202e" not in shown
    assert form is repr or "<script>" not in shown
