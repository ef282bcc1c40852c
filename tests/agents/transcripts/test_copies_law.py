"""Laws: a session that is doubled, forked, resumed, compacted, copied or grown is the same runs, in any order."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.events import Event
from rbank_es.exchange import import_paths
from tests.agents.transcripts.sessions import (
    COMPACTED,
    Fields,
    Turn,
    boundaries,
    child_of,
    claude_lines,
    codex_lines,
    forked,
    turns,
    write,
)
from tests.effort import examples

OF_RUNS = ["run_started", "lm_called", "tool_called", "run_finished", "run_judged"]


def told(event: Event) -> tuple[object, ...]:
    """What an event says, without what differs between copies: the session around it."""
    names = (
        "run",
        "task",
        "call",
        "result",
        "error",
        "tokens_in",
        "tokens_out",
        "outcome",
        "answer",
        "verdict",
        "model",
    )
    return type(event).__name__, event.id, *(getattr(event, name, None) for name in names)


def imported(*files: Sequence[Fields]) -> set[tuple[object, ...]]:
    """What a bank has of files that are imported one after the other."""
    with TemporaryDirectory() as folder, Bank.create(f"memory:{uuid4().hex}") as bank:
        for number, lines in enumerate(files):
            import_paths(bank, [write(Path(folder) / f"{number}.jsonl", list(lines))])
        events = [told(event) for event in bank.log.read(types=OF_RUNS)]
    assert len(set(events)) == len(events)
    return set(events)


@given(of=turns, more=turns, data=st.data())
@settings(max_examples=examples(60))
def test_whatever_is_written_again_is_the_same_runs(of: list[Turn], more: list[Turn], data: st.DataObject) -> None:
    lines, own = claude_lines(of), claude_lines(more, "other", first=5000)
    cut = data.draw(st.integers(1, len(lines)), "the fork has so many lines of the session")
    between = data.draw(st.sampled_from(boundaries(lines)), "it is resumed here")
    inside = data.draw(st.integers(0, len(lines)), "it is compacted here")
    twice = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=4), "lines that stand twice")
    resumed = [line | {"sessionId": "resumed"} for line in lines]
    files = [
        lines,
        [line for number, line in enumerate(lines) for line in [line] * (1 + (number in twice))],
        [*lines, *lines],
        [*lines[:inside], *COMPACTED, *lines[inside:]],
        resumed[:between],
        resumed[between:],
        [line | {"sessionId": "background"} for line in lines[:between]],
        [*forked(lines[:cut], "other"), *own],
    ]
    chosen = data.draw(st.permutations(files[1:]), "in this order")
    expected = imported(lines, own)
    assert imported(*[file for file in chosen if file], lines) == expected
    assert imported(lines, *[file for file in chosen if file]) == expected


@given(of=turns, more=turns, data=st.data())
@settings(max_examples=examples(40))
def test_a_sub_agent_that_copies_its_parent_adds_its_own_turns_alone(
    of: list[Turn], more: list[Turn], data: st.DataObject
) -> None:
    parent, own = codex_lines(of, "parent"), codex_lines(more, "child")
    child = child_of(parent, own, "child")
    alone = imported(parent, [child[0], *child[len(parent) + 1 :]])
    twice = data.draw(st.lists(st.integers(1, len(parent) - 1), max_size=4), "lines that stand twice")
    doubled = [line for number, line in enumerate(parent) for line in [line] * (1 + (number in twice))]
    files = data.draw(st.permutations([parent, child, doubled, [*parent, *parent[1:]]]))
    assert {event[1] for event in imported(*files)} == {event[1] for event in alone}


@given(of=turns, codex=st.booleans(), data=st.data())
@settings(max_examples=examples(60))
def test_a_file_that_grows_ends_as_one_that_was_whole(of: list[Turn], codex: bool, data: st.DataObject) -> None:
    lines = codex_lines(of) if codex else claude_lines(of)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(lines)), max_size=4)))
    assert imported(*[lines[:cut] for cut in cuts], lines) == imported(lines)
