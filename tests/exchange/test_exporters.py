"""Exporting: each form as others read it, at any point, and back through import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, BadPoint, NotInBank
from rbank_es.events import (
    ContextBuilt,
    Decision,
    Event,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.exchange import import_paths
from rbank_es.exchange.exporters import FORMS, SUFFIXES, export, export_files, file_name
from rbank_es.exchange.reasoningbank_export import without_run
from rbank_es.law import active

LEARNT = Item.make(
    "Sound the horn twice", "In fog, twice a minute.", "success", desc="In fog.", tags=("fog",), domain="sea"
)
AVOIDED = Item.make("Don't trust the bell", "It stands still.", "failure", polarity="failure", role="keeper", id="bell")
SEED = Item.make("Wind the clock", "Every evening.", "seed")


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as made:
        learn(made, "seed", SEED)
        native_run(made)
        yield made


def learn(bank: Bank, kind: Any, *items: Item, runs: tuple[str, ...] = (), skip: bool = False) -> None:
    heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
    [extracted] = bank.append(MemoriesExtracted(kind=kind, runs=runs, heads=heads, candidates=texts)).events
    decisions = tuple(
        Decision(candidate=index, action="skip" if skip else "add", item=item.id, targets=(item.id,) if skip else ())
        for index, item in enumerate(items)
    )
    bank.append(MemoriesConsolidated(extraction=extracted.id, policy="append-1", decisions=decisions))


def native_run(bank: Bank, run: str = "run/1") -> None:
    """A run as an agent of this project records it."""
    story: list[Event] = [
        RunStarted(run=run, task="How deep is it?", ontology="sea", executor="rlm", model="m", iterations_max=9),
        ContextBuilt(run=run, chars=77, items=(SEED.id,), texts=("words",)),
        LmCalled(run=run, role="agent", model="m", tokens_in=40, tokens_out=4, cost_usd=0.25),
        LmCalled(run=run, role="sub", model="m", tokens_in=2),
        ToolCalled(
            run=run, tool="sound", call="c1", step=1, chars=3, duration_s=0.5, arguments='{"at":1}', result="{}"
        ),
        ToolCalled(run=run, tool="sound", chars=9, error_code="timeout", error="late"),
        StepTaken(run=run, index=1, stdout_chars=5, reasoning="ask " * 900, code="sound(1)", output="7"),
        RunFinished(run=run, outcome="submitted", iterations=1, answer="7", answer_chars=1, sparql="SELECT 1"),
        RunJudged(run=run, purpose="learning", verdict="success", judge="j", judge_version="1", kind="lm", reason="so"),
    ]
    for event in story:
        bank.append(event)
    learn(bank, "success", LEARNT, runs=(run,))
    learn(bank, "failure", AVOIDED, runs=(run,))


def lines(bank: Bank, form: str, **options: Any) -> list[Any]:
    """Return the lines of an export, without the ids that it carries for a later import."""
    point = options.pop("point", None)
    found = [json.loads(line) for line in b"".join(export(bank, point, form, **options)).splitlines()]
    for line in found:
        for part in (line, line.get("data", {})):
            part.pop("rbank_es", None)
    return found


def again(bank: Bank, form: str, folder: Path) -> Bank:
    """Another bank, made from what this one exports."""
    folder.mkdir()
    for name, pieces in export_files(bank, None, form):
        (folder / name).write_bytes(b"".join(pieces))
    other = Bank.create(folder / "bank", unsafe_no_sync=True)
    import_paths(other, sorted(folder.glob("*.json*")))
    return other


# ---------------------------------------------------------------- items


def test_items_come_back_as_they_are(bank: Bank, tmp_path: Path) -> None:
    """Ids, words and facts."""
    odd = Item.make('Odd \u2028 "one"', "tab\there\n\nend \U0001f30a", "pattern", polarity="failure", scope="exception")
    learn(bank, "pattern", odd)
    with again(bank, "items", tmp_path / "again") as other:
        assert active(other.state()) == active(bank.state())


# ---------------------------------------------------------------- trajectories


def test_several_runs_are_several_files(bank: Bank) -> None:
    """One stream of them could not be imported, so it is refused with what to do."""
    bank.append(RunStarted(run="r2"))
    with pytest.raises(BadInput, match="2 runs"):
        export(bank, None, "trajectories")
    with pytest.raises(NotInBank, match="nobody"):
        export(bank, None, "trajectories", run="nobody")


# ---------------------------------------------------------------- ReasoningBank


def test_items_that_no_run_brought_are_counted(bank: Bank) -> None:
    """Given by hand, or by a run that never began here; not those that ended, were erased, or that a run supports."""
    before = bank.position
    assert without_run(bank, None) == 1  # the seed
    by_hand = [Item.make(f"Given by hand {n}", "x", "seed") for n in range(4)]
    learn(bank, "seed", *by_hand)
    learn(bank, "success", elsewhere := Item.make("Learnt elsewhere", "y"), runs=("nobody",))
    assert without_run(bank, None) == 6 and without_run(bank, before) == 1
    learn(bank, "success", by_hand[0], runs=("run/1",), skip=True)
    bank.append({"type": "memories_retracted", "ids": [by_hand[1].id]})
    bank.erase(item=by_hand[2].id)
    assert without_run(bank, None) == 3
    written = [text for record in lines(bank, "reasoningbank") for text in record["memory_items"]]
    assert any(by_hand[0].title in text for text in written)
    assert not any(item.title in text for item in (*by_hand[1:], elsewhere) for text in written)


def test_records_come_back_with_their_ids_and_unknown_keys(tmp_path: Path) -> None:
    """What was imported from a memory file is written as it was."""
    items = ["# Memory Item 1\n## Title T\n## Description D\n## Content C"]
    record = {
        "task_id": 7,
        "query": "q",
        "think_list": ["a", None],
        "action_list": [None, "b"],
        "status": "fail",
        "memory_items": items,
        "template_id": 2,
        "seed": 3,
    }
    (tmp_path / "m.jsonl").write_text(json.dumps(record))
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        import_paths(bank, [tmp_path / "m.jsonl"])
        assert lines(bank, "reasoningbank") == [record]
        [run] = bank.state().runs
        assert lines(bank, "reasoningbank", run=run) == [record]
        with pytest.raises(NotInBank):
            lines(bank, "reasoningbank", run="nobody")


# ---------------------------------------------------------------- all forms


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_bank_as_it_was_at_a_point(bank: Bank, form: str) -> None:
    """What came later doesn't show; a point that doesn't exist is refused before anything is written."""
    end = bank.position
    before = {name: b"".join(pieces) for name, pieces in export_files(bank, None, form)}
    native_run(bank, "later")
    learn(bank, "seed", Item.make("Later", "Later."))
    bank.append({"type": "memories_forgotten", "ids": [SEED.id], "policy": "bounded-1"})
    assert {name: b"".join(pieces) for name, pieces in export_files(bank, end, form)} == before
    assert all(name.endswith(SUFFIXES[form]) for name in before)
    with pytest.raises(BadPoint):
        export(bank, "HEAD~999", form)


def test_an_unknown_form_is_refused(bank: Bank) -> None:
    """With the forms that there are."""
    with pytest.raises(BadInput, match=r"items, trajectories, reasoningbank, events, prov"):
        export(bank, None, "pdf")


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("run-1", True),
        ("a.b_c", True),
        ("a/b", False),
        ("..", False),
        (".hidden", False),
        ("x" * 250, False),
        ("å", False),
    ],
)
def test_a_runs_name_is_made_fit_for_a_file(name: str, fit: bool) -> None:
    """One that is not fit gets a digest, so that two names never share a file."""
    made = file_name(name)
    assert (made == name) is fit
    assert "/" not in made and not made.startswith(".") and len(made) < 230
    assert msgspec.json.decode(msgspec.json.encode(made)) == made


def test_erased_texts_are_left_out_of_a_trajectory(bank: Bank) -> None:
    """The keys of the run's numbers stay."""
    bank.erase(run="run/1")
    found = lines(bank, "trajectories")
    assert [line["event_type"] for line in found][-1] == "run_complete"
    assert "task" not in found[0]["data"] and found[0]["data"]["max_iters"] == 9
    assert "answer" not in found[-1]["data"] and found[-1]["data"]["answer_length"] == 1


def test_erased_items_are_left_out(bank: Bank) -> None:
    """Of an item without words only its id is left."""
    bank.erase(item="bell")
    assert [item["id"] for item in json.loads(b"".join(export(bank, None, "items")))] == [SEED.id, LEARNT.id]
