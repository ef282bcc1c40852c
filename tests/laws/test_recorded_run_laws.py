"""The law of the recorder: a run is the same, recorded by it, written by hand as events, or imported."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rbank_es import Bank, __version__
from rbank_es.bank.agent_run import AgentRun
from rbank_es.events import (
    ContextBuilt,
    Event,
    LayerUse,
    LmCalled,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.exchange import import_paths
from rbank_es.exchange.exporters import export
from rbank_es.log.run_reader import read_run
from tests.effort import examples

WORDS = ("which lamps are lit", "close the cellar door", "never trust a switch", "snow")
CLOCKED = ("started_at", "finished_at", "imported_at", "duration_s", "started_seq", "finished_seq", "judged_seq", "seq")
texts = st.sampled_from((*WORDS, "", "é" * 700))
Op = tuple[str, Any, Any]
ops = st.one_of(
    st.tuples(st.just("recall"), st.sampled_from(WORDS), st.none()),
    st.tuples(st.just("tool"), st.dictionaries(st.sampled_from("qk"), texts, max_size=2), texts),
    st.tuples(st.just("fault"), st.just({}), texts),
    st.tuples(st.just("step"), texts, texts),
    st.tuples(st.just("call"), texts, st.integers(0, 9)),
    st.tuples(st.just("note"), texts, st.none()),
)
ends = st.sampled_from((("finish", "the hall's"), ("finish", ""), ("left", None), ("raised", "no lamp")))
verdicts = st.lists(st.sampled_from(("success", "failure", "undecided")), max_size=2)


class Course(NamedTuple):
    """What happens in one run."""

    task: str
    ops: list[Op]
    end: tuple[str, str | None]
    verdicts: list[Any]


courses = st.builds(Course, st.sampled_from(WORDS), st.lists(ops, max_size=6), ends, verdicts)


def taught() -> Bank:
    bank = Bank.create("memory:")
    for words in WORDS[:3]:
        bank.remember(words.capitalize(), f"{words}: ask for that.", src="success" if "lamps" in words else "failure")
    return bank


def recorded(bank: Bank, course: Course) -> AgentRun:
    """Record a course with the recorder."""
    run = bank.record(course.task, model="m", level=1)
    with contextlib.suppress(LookupError), run:
        for kind, one, two in course.ops:
            if kind == "recall":
                run.recall(one)
            elif kind == "tool":
                run.tool("search", one, two)
            elif kind == "fault":
                run.tool("search", one, error=two)
            elif kind == "step":
                run.step(reasoning=one, output=two)
            elif kind == "call":
                run.call(request=one, response=one, tokens_in=two)
            else:
                run.note(one)
        if course.end[0] == "finish":
            run.finish(course.end[1])
        elif course.end[0] == "raised":
            raise LookupError(course.end[1])
    for verdict in course.verdicts:
        run.judge(verdict, by="tests", reason="so")
    return run


def by_hand(bank: Bank, course: Course, run: str, like: Bank) -> None:
    """Write the same as events, one by one; what was recalled is looked up in the other bank's log."""
    searches = list(like.events(types={"memories_retrieved"}, run=run, resolve=True))
    given, told = list[str](), list[str]()
    bank.append(RunStarted(run=run, task=course.task, model="m", level=1, executor="recorder", release=__version__))
    steps = 0
    for kind, one, two in course.ops:
        if kind == "recall":
            found, searches = searches[:2], searches[2:]
            bank.append(found)
            hits = [hit.id for each in found for hit in each.hits]  # type: ignore[attr-defined]
            new = [id for id in hits if id not in given]
            text = next((text for text in _texts(like, run, len(told)) if new), "")
            if new or not told:
                given += new
                told.append(text)
                uses = tuple(LayerUse(layer="L2", chars=len(each), budget=600) for each in told)
                chars = len("\n\n".join(told)) if told[0] else len("\n\n".join(filter(None, told)))
                bank.append(ContextBuilt(run=run, chars=chars, layers=uses, items=tuple(given), texts=tuple(told)))
            continue
        event: Event
        if kind == "tool":
            event = ToolCalled(
                run=run, tool="search", arguments=json.dumps(one, ensure_ascii=False), result=two, chars=len(two)
            )
        elif kind == "fault":
            event = ToolCalled(run=run, tool="search", arguments="{}", error=two, error_code="failed", chars=len(two))
        elif kind == "step":
            steps += 1
            event = StepTaken(run=run, index=steps, reasoning=one, output=two, stdout_chars=len(two))
        elif kind == "call":
            words = json.dumps(one, ensure_ascii=False)
            event = LmCalled(run=run, role="agent", model="m", request=words, response=words, tokens_in=two)
        else:
            event = NoteLogged(run=run, note=json.dumps(one, ensure_ascii=False))
        bank.append(event)
    # How long it took, and whether what was recalled was sent, are what the recorder alone finds out.
    ended = read_run(like.log, run).end
    assert ended is not None
    found_out = {name: getattr(ended, name) for name in ("duration_s", "recall_sent", "recall_unsent")}
    bank.append(replace(_end(course, run), **found_out))
    for verdict in course.verdicts:
        facts: Any = {"judge": "tests", "judge_version": "1", "kind": "outcome", "reason": "so"}
        bank.append(RunJudged(run=run, purpose="learning", verdict=verdict, **facts))


def _texts(like: Bank, run: str, number: int) -> list[str]:
    contexts = [event for event in like.events(types={"context_built"}, run=run, resolve=True)]
    return [
        str(event.texts[number]) for event in contexts if isinstance(event, ContextBuilt) and len(event.texts) > number
    ]


def _end(course: Course, run: str) -> RunFinished:
    kind, words = course.end
    if kind == "finish":
        return RunFinished(run=run, outcome="submitted", answer=words, answer_chars=len(words or ""))
    if kind == "left":
        error = "the agent's loop ended without run.finish(answer)"
        return RunFinished(run=run, outcome="failed", error_code="unfinished", error=error)
    return RunFinished(run=run, outcome="failed", error_code="raised", error=f"LookupError: {words}")


def shown(bank: Bank) -> dict[str, list[dict[str, Any]]]:
    """The read models of runs without the clock."""
    names = ("runs", "leakage_by_run", "leakage_by_run_and_tool", "red_flags", "item_usage", "item_exposures")
    with bank.live() as view:
        rows = {name: view.rows(name) for name in names}
    return {
        name: [{key: value for key, value in row.items() if key not in CLOCKED} for row in found]
        for name, found in rows.items()
    }


@settings(max_examples=examples(100))
@given(courses)
def test_a_recorded_run_is_the_one_that_was_written_by_hand(course: Course) -> None:
    with taught() as bank, bank.copy() as twin:
        run = recorded(bank, course)
        by_hand(twin, course, run.id, bank)
        assert bank.replay().digests == twin.replay().digests
        assert shown(bank) == shown(twin)
        checked = bank.check(retrievals=True, strict=True)
        assert checked.slips is not None and not checked.slips.counts


BROUGHT = (
    "run",
    "task",
    "model",
    "executor",
    "level",
    "outcome",
    "error",
    "answer",
    "answer_chars",
    "tool_calls",
    "steps",
)


@settings(max_examples=examples(40))
@given(courses)
def test_a_recorded_run_comes_back_from_its_trajectory(tmp_path_factory: Any, course: Course) -> None:
    """With its answer, its steps, its calls and their sizes; verdicts are no part of that form."""
    folder: Path = tmp_path_factory.mktemp("exported", numbered=True)
    with Bank.create("memory:") as bank, Bank.create("memory:") as other:
        run = recorded(bank, course._replace(verdicts=[]))
        (folder / "run.jsonl").write_bytes(b"".join(export(bank, None, "trajectories", run=run.id)))
        import_paths(other, [folder / "run.jsonl"])
        was, came = shown(bank), shown(other)
        assert [[row[name] for name in BROUGHT] for row in came["runs"]] == [
            [row[name] for name in BROUGHT] for row in was["runs"]
        ]
        assert came["leakage_by_run_and_tool"] == was["leakage_by_run_and_tool"]
