"""Answers of pages, as of many positions of the sample, beside the fold and beside plain readings of the log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es import Bank
from rbank_es.answers.health import thinned
from rbank_es.bank.verdict_review import doubts_at
from rbank_es.errors import BadInput, BadPoint, NotInBank
from rbank_es.events import (
    Event,
    RunFinished,
    RunJudged,
    RunStarted,
)
from rbank_es.law import counted_uses, usage
from rbank_es.page.page_answer import PageAnswers
from tests.cli_runner import SAMPLE
from tests.cli_runner import run as command
from tests.effort import one_in

HEAD = 609
POSITIONS = one_in(7, [*range(0, HEAD, 38), 201, 202, HEAD])


@pytest.fixture(scope="module")
def bank() -> Iterator[Bank]:
    with Bank.open(SAMPLE) as opened:
        assert opened.position == HEAD
        yield opened


@pytest.fixture(scope="module")
def events(bank: Bank) -> list[Event]:
    return list(bank.events(resolve=True))


def ask(bank: Bank, name: str, at: int | None = None, **given: Any) -> dict[str, Any]:
    parameters = {key: str(value) for key, value in given.items()} | ({} if at is None else {"at": str(at)})
    found = ask_any(bank, name, **parameters)
    assert found.get("position", found.get("at")) == (HEAD if at is None else at)
    return found


@pytest.mark.parametrize("at", POSITIONS)
def test_items_are_those_of_the_fold(bank: Bank, at: int) -> None:
    state = bank.state(at)
    used = usage(state)
    found = ask(bank, "items", at, limit=200)
    rows = {row["id"]: row for row in found["items"]}
    assert rows.keys() == state.items.keys() and found["total"] == len(rows)
    for id, entry in state.items.items():
        row = rows[id]
        assert (row["title"], row["state"], row["polarity"]) == (entry.item.title, entry.state, entry.item.polarity)
        assert (row["uses"], row["wins"]) == used.get(id, (0, 0))
        assert row["domains"] == list(entry.domains)
        assert row["losses"] == sum(
            (verdict := state.verdicts.get((run, "learning"))) is not None and verdict.verdict == "failure"
            for run in counted_uses(state).get(id, ())
        )


def test_without_prompts_what_models_were_sent_is_in_no_answer(bank: Bank) -> None:
    run = ask(bank, "runs", limit=1)["runs"][0]["run"]
    without = PageAnswers(bank, "file", prompts=False)
    found = without.ask("run", {"run": run})
    assert all(layer.text.text is None and not layer.text.erased for layer in found.layers)
    calls = [each for each in found.events if each.type == "lm_called"]
    assert calls and all(text.text is None for each in calls for text in each.texts if text.author)
    with pytest.raises(NotInBank, match="left out"):
        without.ask("text", {"event": str(calls[0].seq), "path": "request.0"})


def ask_any(bank: Bank, name: str, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(PageAnswers(bank, "file").ask(name, given)))
    return found


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("runs", {"at": "nosuch"}),
        ("runs", {"at": "9999"}),
        ("runs", {"limit": "0"}),
        ("runs", {"limit": "9" * 5000}),
        ("runs", {"limit": "\u0661"}),
        ("runs", {"sort": "run_starts.task"}),
        ("runs", {"sort": "started_seq; DROP TABLE run_starts"}),
        ("runs", {"where": ("verdict=' OR 1=1",)}),
        ("runs", {"after": "' OR 1=1"}),
        ("runs", {"q": "x" * 2000}),
        ("items", {"where": ("state=nosuch",)}),
        ("run", {}),
        ("run", {"run": "' UNION SELECT 1 --"}),
        ("item", {"item": "nosuch"}),
        ("text", {"event": "3", "path": "__class__"}),
        ("text", {"event": "3", "path": "salt"}),
        ("text", {"event": "3", "path": "id"}),
        ("text", {"event": "9999", "path": "task"}),
        ("text", {"event": "-1", "path": "task"}),
        ("text", {"event": "9" * 18, "path": "task"}),
        ("text", {"event": "3", "path": "task", "offset": "9" * 5000}),
        ("text", {"event": "3", "path": f"request.{'1' * 900}"}),
    ],
)
def test_what_can_not_be_answered_is_refused_by_name(bank: Bank, name: str, given: dict[str, Any]) -> None:
    with pytest.raises((BadInput, BadPoint)):
        PageAnswers(bank, "file").ask(name, given)


def test_text_that_looks_like_sql_is_looked_for_as_text(bank: Bank) -> None:
    for hostile in ("'; DROP TABLE runs --", '" OR ""="', "%", "\x00"):
        for name, parameter in (
            ("runs", "q"),
            ("items", "q"),
            ("items", "domain"),
        ):
            found = ask_any(bank, name, **{parameter: hostile})
            assert found.get(name, found.get("rows")) == []


# ---------------------------------------------------------------- review, leakage, health, differences, search


@pytest.mark.parametrize("at", one_in(3, [150, 400, HEAD]))
def test_what_wants_a_look_is_what_the_fold_contradicts(bank: Bank, events: list[Event], at: int) -> None:
    state, found = bank.state(at), ask(bank, "review", at)

    def verdict(run: str, purpose: Any) -> str | None:
        standing = state.verdicts.get((run, purpose))
        return standing and standing.verdict

    ended = {event.run: event.outcome for event in events[:at] if isinstance(event, RunFinished)}
    failed = {run for run, outcome in ended.items() if outcome == "failed"}
    wanted = set()
    for run in state.runs:
        learning, scoring = verdict(run, "learning"), verdict(run, "scoring")
        differ = {learning, scoring} == {"success", "failure"}
        if differ or (run in ended and run not in failed and learning is None):
            wanted.add(run)
    assert {row["run"] for row in found["runs_to_settle"]} == wanted
    assert found["runs_to_settle_total"] == len(wanted)
    pending = {id for id, entry in state.items.items() if entry.state == "pending"}
    assert {row["id"] for row in found["pending"]} == pending
    for row in found["pending"]:
        drawn = {id for ground in row["grounds"] if ground["stands"] for id in [ground["extraction"]]}
        assert drawn and drawn <= state.extractions.keys()
    assert sum(row["runs"] for row in found["failed_runs"]) == len(failed)
    assert ask(bank, "overview", at)["wants_look"] == len(wanted) + found["errors"] + len(pending)
    for row in found["losing"]:
        assert state.items[row["id"]].state == "active" and row["losses"] > row["wins"]


ENDINGS: list[tuple[str | None, str | None, str]] = [
    ("timeout", "no answer in 30 s", "timeout: no answer in 31 s"),
    (None, "ConnectionError: port 8001 refused\n\nmore", "ConnectionError: port 8002 refused"),
    (None, "Traceback (most recent call last):\n  File 'a.py', line 3\nKeyError: 'rows'\n", "KeyError: 'rows'"),
    ("sandbox_failed", None, "sandbox_failed"),
    (None, " \n", "no reason was recorded"),
]
"""Codes and messages of errors, and how they read when each of their figures is another one."""


def test_errors_that_ended_runs_are_failures_to_look_at_by_their_reason(tmp_path: Path) -> None:
    """Judged or not; but for those that were judged a success all the same, and runs that ended otherwise."""
    with Bank.create(tmp_path / "b") as opened:
        for number, (code, error, reason) in enumerate(ENDINGS):
            for n in range(number + 1):
                run = f"r{number}.{n}"
                words = error if n < number else (reason.removeprefix(f"{code}: ") if code != reason else None)
                end = RunFinished(run=run, outcome="failed", error_code=code, error=words)
                opened.append([RunStarted(run=run, task=f"task {number}"), end])
        judged = partial(RunJudged, purpose="learning", judge="j", judge_version="1", kind="check")
        opened.append(judged(run="r0.0", verdict="failure"))
        opened.append([RunStarted(run="won", task="t"), RunFinished(run="won", outcome="failed", error="odd")])
        opened.append(judged(run="won", verdict="success"))
        for run in ("lost", "forced"):
            opened.append([RunStarted(run=run, task="t"), RunFinished(run=run, outcome="forced_at_limit")])
        opened.append(judged(run="lost", verdict="failure"))
        overview, review = ask_any(opened, "overview"), ask_any(opened, "review")
        listed = ask_any(opened, "runs", where=("outcome=failed",))
        first = ask_any(opened, "run", run="r0.0")["run"]
    wanted = [
        (len(ENDINGS) - n, reason, f"r{len(ENDINGS) - n - 1}.{len(ENDINGS) - n - 1}")
        for n, (*_, reason) in enumerate(reversed(ENDINGS))
    ]
    for rows, total in (
        (overview["failed_runs"], overview["errors"]),
        (review["failed_runs"], review["errors"]),
    ):
        assert [(row["runs"], row["reason"], row["run"]) for row in rows] == wanted[: len(rows)]
        assert total == len(ENDINGS)
    assert [row["run"]["run"] for row in overview["failures"]] == ["lost"]
    assert [row["why"] for row in review["runs_to_settle"]] == ["it was stopped at a limit, and nobody judged it"]
    assert overview["wants_look"] == len(ENDINGS) + 1 and listed["total"] == 16
    assert (first["outcome"], first["error_code"], first["error"]) == ("failed", "timeout", "no answer in 31 s")


@pytest.mark.slow
def test_what_to_check_first_is_what_the_command_lists_and_in_the_past_what_was_doubtful_then(bank: Bank) -> None:
    listed = command("review", SAMPLE, "--verdicts", "10", "--json", cwd=SAMPLE).json
    found = PageAnswers(bank, "file", argument=str(SAMPLE)).ask("doubts", {})
    assert found.total == listed["total"] > 0 and found.command.endswith(f"--verdicts {found.total}")
    for row, wanted in zip(found.rows, listed["rows"], strict=True):
        for name in ("run", "verdict", "judged_seq", "loss", "takes_out", "minutes", "confirm", "stake_total"):
            assert getattr(row, name) == wanted[name]
    assert bank.at(400).doubts().total == len(doubts_at(bank, 400)) != found.total


def test_a_difference_of_so_many_rows_has_those_that_changed_last(bank: Bank) -> None:
    every, some = bank.difference(100), bank.difference(100, limit=5)
    assert len(some.items) == len(some.runs) == 5 and some.counts == every.counts
    changed = [each.changed_seq or 0 for each in some.items]
    assert changed == sorted((each.changed_seq or 0 for each in every.items), reverse=True)[:5]


def test_erased_words_are_in_no_answer() -> None:
    with Bank.create("memory:", purpose="p") as opened:
        opened.append([RunStarted(run="r", task="a secret task"), RunFinished(run="r", outcome="failed", answer="x")])
        opened.erase(event=3)
        row = ask_any(opened, "runs")["runs"][0]
        assert row["task"] is None
        erased = {
            "path": "task", "author": None, "text": None, "chars": None, "next_offset": None, "erased": True,
        }  # fmt: skip
        assert ask_any(opened, "run", run="r")["events"][0]["texts"] == [erased]
        assert ask_any(opened, "text", event="3", path="task")["block"] == erased


def test_a_course_is_thinned_to_the_last_of_each_group() -> None:
    assert thinned(range(10), 3) == [2, 5, 9]
    assert thinned(range(2), 3) == [0, 1] and thinned([], 3) == []
