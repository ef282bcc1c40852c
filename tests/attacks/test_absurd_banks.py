"""Banks all of whose events are valid and make no sense: commands stay quick, whole and silent about nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.verdict_error import fitted, opinions_of
from rbank_es.errors import BadEvent
from rbank_es.events import (
    Decision,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    PolicyChoice,
    PolicySet,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.events.items import Item
from rbank_es.log.lines import seed_of
from tests.cli_runner import run

JUDGES = 8_000


def judged(run_id: str, number: int) -> RunJudged:
    verdict = ("success", "failure", "undecided")[number % 3]
    return RunJudged(
        run=run_id, purpose="learning", verdict=verdict, kind="lm", judge=f"judge-{number}", judge_version="1"
    )


def processor_s(since_s: float) -> float:
    return time.process_time() - since_s


def test_the_health_of_a_bank_takes_no_square_of_the_verdicts_on_one_run(tmp_path: Path) -> None:
    """With 9,000 judges on one run, one query took 4 s of processor; with 34,000 it took a minute."""
    with Bank.create(tmp_path / "judged", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run="same"), RunFinished(run="same", outcome="submitted")])
        bank.append([judged("same", number) for number in range(JUDGES)])
        with bank.live() as view:
            before_s = time.process_time()
            [health] = view.rows("bank_health")
            assert processor_s(before_s) < 1
    assert (health["judged"], health["judged_twice"], health["disagreed"]) == (1, 1, 1)


def test_the_errors_of_judges_are_fitted_without_a_square_of_the_verdicts_on_one_run() -> None:
    """With 6,000 decided verdicts on one run, `review --verdicts` took three minutes."""
    verdicts = [judged("same", number) for number in range(JUDGES)]
    before_s = time.process_time()
    model = fitted(opinions_of(verdicts))
    assert processor_s(before_s) < 2
    assert len(model.records) == sum(event.verdict != "undecided" for event in verdicts)


def learned(bank: Bank, number: int, relied: Sequence[str] = (), superseded: Sequence[str] = ()) -> list[Event]:
    item = Item.make(f"title {number}", "content")
    made = MemoriesExtracted(
        id=bank.log.new_id(),
        kind="success",
        relied=tuple(Reliance(run=run, verdict="success") for run in relied),
        heads=(item.head,),
        candidates=(item.text,),
    )
    decision = Decision(candidate=0, action="supersede", item=item.id, targets=tuple(superseded))
    return [made, MemoriesConsolidated(extraction=made.id, policy="hand-1", decisions=(decision,))]


def built_s(bank: Bank) -> float:
    """Return the processor time of the first build of the read models."""
    before_s = time.process_time()
    with bank.live() as view:
        assert view.position == bank.position
    return processor_s(before_s)


@pytest.mark.slow
def test_decisions_that_end_ten_thousand_items_are_indexed_without_a_square_of_them(tmp_path: Path) -> None:
    """Each target was sought among all targets: 12 such decisions took 6 s of processor."""
    names = [f"item-{number}" for number in range(limits.NAMES)]
    with Bank.create(tmp_path / "ended", unsafe_no_sync=True) as bank:
        for number in range(12):
            bank.append(learned(bank, number, superseded=names))
        assert built_s(bank) < 3


@pytest.mark.slow
def test_extractions_that_rely_on_one_run_are_indexed_without_a_square_of_them(tmp_path: Path) -> None:
    """The list of those that rely on the run was compared whole at each: 4,000 took 5 s of processor."""
    with Bank.create(tmp_path / "relying", unsafe_no_sync=True) as bank:
        for first in range(0, 4_000, 500):
            bank.append([event for number in range(500) for event in learned(bank, first + number, relied=["same"])])
        assert built_s(bank) < 2
        with bank.live() as view:
            assert len(view.rows("drawn_candidates", run="same")) == 4_000


NUL = "-NUL--"
"""A mark in names, as long as `\\u0000`."""


def written_elsewhere(place: Path, bank_id: str) -> None:
    """Put U+0000 in the place of each mark in a bank's log, as another writer could have done."""
    [segment] = place.glob("*.jsonl")
    lines = segment.read_bytes().replace(NUL.encode(), b"\\u0000").splitlines()
    bodies = [line[: line.rindex(b',"crc":"')] for line in lines]
    segment.write_bytes(b"".join(b'%s,"crc":"%08x"}\n' % (body, crc32(body, seed_of(bank_id))) for body in bodies))


@pytest.mark.slow
def test_names_with_the_character_0_in_a_log_from_elsewhere_are_listed_whole(tmp_path: Path) -> None:
    """SQLite's JSON ends a text at it: `runs` of such a bank ended as a defect."""
    names = [f"{NUL}first", f"sec{NUL}ond", "sec", f"third{NUL}"]
    with Bank.create(tmp_path / "zero", unsafe_no_sync=True) as bank:
        bank.append([RunStarted(run=name, task=f"of {name}") for name in names])
    written_elsewhere(tmp_path / "zero", bank.id)
    listed = run("runs", "./zero", "--json", cwd=tmp_path).json
    wanted = [name.replace(NUL, "\0") for name in names]
    assert {row["run"]: row["task"] for row in listed["runs"]} == {name: f"of {name}" for name in wanted}
    assert "\\x00first" in run("runs", "./zero", cwd=tmp_path).out


def test_names_with_the_character_0_are_refused_and_texts_with_it_are_kept(tmp_path: Path) -> None:
    """In lineage, and among items that a search leaves out, two names with the same beginning were one."""
    item = Item.make("title", "content", id="it\0em")
    made = MemoriesExtracted(kind="seed", heads=(item.head,), candidates=(item.text,))
    named = PolicySet(policies=(PolicyChoice(kind="retrieval", name="bm25", version=2, settings={"\0": 1}),))
    with Bank.create(tmp_path / "zero", unsafe_no_sync=True) as bank:
        for event, place in ((RunStarted(run="r\0"), "run"), (made, "heads"), (named, "policies")):
            with pytest.raises(BadEvent, match=rf"U\+0000.*\$\.{place}"):
                bank.append([event])
        bank.append([RunStarted(run="\\u0000", task="\0")])
        assert [event.run for event in bank.events(types=["run_started"])] == ["\\u0000"]
