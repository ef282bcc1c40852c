"""Laws: the spans of a trace are one run, in whatever order, number of copies and parts they come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.events import Event, RunFinished, RunStarted
from rbank_es.exchange import import_paths
from tests.agents.traces.made_traces import Fields, chat, request, tool, traces, write
from tests.effort import examples

ACTS = ["lm_called", "tool_called"]
ENVELOPE = ("seq", "at", "more", "dur", "crc", "salt")


def told(event: Event) -> tuple[tuple[str, object], ...]:
    """What an event says, without what the log adds."""
    return tuple((name, repr(getattr(event, name))) for name in event.__struct_fields__ if name not in ENVELOPE)


def imported(*files: Sequence[Fields]) -> tuple[set[object], object, tuple[str, str]]:
    """The acts of files imported one after the other, the end that holds, and the start without its task."""
    with TemporaryDirectory() as folder, Bank.create(f"memory:{uuid4().hex}") as bank:
        for number, lines in enumerate(files):
            import_paths(bank, [write(Path(folder) / f"{number}.jsonl", lines)])
        acts = [told(event) for event in bank.log.read(types=ACTS)]
        ends = [event for event in bank.log.read(types=["run_finished"]) if isinstance(event, RunFinished)]
        (start,) = [event for event in bank.log.read(types=["run_started"]) if isinstance(event, RunStarted)]
        assert len(set(acts)) == len(acts) and {event.run for event in ends} == {start.run}
    return set(acts), told(ends[-1]), (start.id, start.run)


@given(spans=traces(), data=st.data())
@settings(max_examples=examples(200))
def test_any_order_any_copies_and_any_parts_of_a_trace_are_the_same_run(
    spans: list[Fields], data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(spans), max_size=4), "these come twice")
    order = data.draw(st.permutations([*spans, *again]), "in this order")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3), "in these files"))
    parts = [order[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    lines = [[request([each]) for each in part] for part in parts if part]
    assert imported(*lines) == imported([request(spans)])


@given(spans=traces(), other=traces(trace=2), data=st.data())
@settings(max_examples=examples(60))
def test_traces_that_come_mixed_are_runs_of_their_own(
    spans: list[Fields], other: list[Fields], data: st.DataObject
) -> None:
    mixed = data.draw(st.permutations([*spans, *other]))
    with TemporaryDirectory() as folder, Bank.create(f"memory:{uuid4().hex}") as bank:
        import_paths(bank, [write(Path(folder) / "all.jsonl", [request([each]) for each in mixed])])
        import_paths(bank, [write(Path(folder) / "again.jsonl", [request(spans), request(other)])])
        found = {type(event).__name__: 0 for event in bank.log.read()}
        for event in bank.log.read(types=["run_started", "run_finished", *ACTS]):
            found[type(event).__name__] += 1
    assert found["RunStarted"] == found["RunFinished"] == 2
    assert found.get("LmCalled", 0) + found.get("ToolCalled", 0) == len(spans) + len(other) - 2


@given(parts=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.booleans()), min_size=2, max_size=5))
@settings(max_examples=examples(60))
def test_the_calls_of_a_loop_that_no_span_tells_of_are_one_run_in_whatever_order_and_parts(
    parts: list[tuple[int, int, bool]],
) -> None:
    """Each call is a trace of its own, of one process; what is below it may come in a later file."""
    files: tuple[list[Fields], list[Fields]] = ([], [])
    for number, (first, later, has_tool) in enumerate(parts, 1):
        files[first].insert(0, chat(number * 10, None, "Which lamps?", f"said {number}", trace=number))
        if has_tool:
            files[first | later].append(tool(number * 10 + 1, number * 10, "{}", "hall", trace=number))
    told = [[request([each], instance="one") for each in file] for file in files if file]
    acts, end, (_, run) = imported(*told)
    whole = imported([request([*files[0], *files[1]], instance="one")])
    assert (acts, end, run) == (whole[0], whole[1], whole[2][1])
