"""The exported page: one HTML file with the app, the rows of the bank and the events of its newest runs.

The app computes its answers from the rows: intervals of positions, as the read models have them, and a few facts of
events that no read model keeps. The events of runs are in blocks, each unpacked when one of its runs is opened.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from rbank_es import __version__
from rbank_es.bank import Bank
from rbank_es.bank.health_report import MEASURES, SAMPLED
from rbank_es.bank.run_judgments import AUTHORITIES
from rbank_es.dashboard.answers.bank_answer import FLAGS, bank_facts, time_marks
from rbank_es.dashboard.answers.doubts_answer import doubts_of
from rbank_es.dashboard.answers.event_answer import shown_event
from rbank_es.dashboard.app_script import app_page
from rbank_es.dashboard.packed_data import Column, LineTable, compact_json, gzipped, packed_column, packed_table
from rbank_es.dashboard.page_text import Html, element, minute, plural, shorten
from rbank_es.errors import CannotWrite
from rbank_es.events import Event, PolicyChoice, type_of
from rbank_es.events.bank_events import PolicySet
from rbank_es.events.memory_events import ItemsLinked
from rbank_es.events.run_events import JudgmentOverruled, MemoriesRetrieved, RunJudged, judge_label
from rbank_es.limits import page_limits
from rbank_es.projections.projection import json_of
from rbank_es.projections.view import View
from rbank_es.state.memory import rank_of
from rbank_es.system.files import write_replacing


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an exported page: `runs` are ids of runs that go in whole beside the newest ones.

    `argument` is the bank as the page's commands name it; empty: by its name.
    """

    runs: tuple[str, ...] = ()
    prompts: bool = True
    argument: str = ""


class WrittenPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page on disk: its absolute path, its size in bytes, its runs, and those of them that are in it whole."""

    path: str
    size_bytes: int
    runs: int
    whole_runs: int


def write_page(
    bank: Bank, view: View, path: str | os.PathLike[str], options: ExportOptions | None = None
) -> WrittenPage:
    """Write the page of a bank as of a view to `path`, whole or not at all; a file that is there is replaced.

    Raises `CannotWrite` where the system refuses or `path` is no file.
    """
    data = page_data(bank, view, options or ExportOptions())
    content = exported_page(data, newest_runs(view))
    try:
        goal, size_bytes = write_replacing(path, [content], follow=True)
    except OSError as refused:
        raise CannotWrite(str(path), refused) from refused
    counts = data["in_file"]
    return WrittenPage(
        path=str(goal.absolute()), size_bytes=size_bytes, runs=counts["runs"], whole_runs=counts["whole"]
    )


def exported_page(data: dict[str, Any], newest: Sequence[dict[str, Any]]) -> bytes:
    """Return the page of the data as one HTML document, with the newest runs as a table for where no script runs."""
    # Blocks stay packed until one is opened, so they stand beside what is unpacked at once.
    at_once = data | {"blocks": [block["runs"] for block in data["blocks"]]}
    packed = {"packed": gzipped(at_once), "blocks": [block["packed"] for block in data["blocks"]]}
    page = app_page(data["bank"]["name"], _summary(data, newest), data=compact_json(packed))
    return page.encode("ascii", "xmlcharrefreplace")


def page_data(bank: Bank, view: View, options: ExportOptions) -> dict[str, Any]:
    """Return all that the page holds about a bank as of a view."""
    position, argument = view.position, options.argument or bank.name
    facts = EventFacts(bank, position)
    started = view.spans("run_starts", ("run", "task"))
    whole = whole_runs([str(run) for run, *_ in started], _failed(view), options.runs)
    worded = frozenset([*whole, *(str(run) for run, *_ in started[-page_limits.PAGE_LISTED_RUNS :])])
    tables = exported_tables(view, facts, worded)
    return {
        "v": 1,
        "release": __version__,
        "bank": bank_facts(bank, position, argument),
        "marks": time_marks(bank, view),
        "flags": FLAGS,
        "measures": [(name, words, name in SAMPLED) for name, words in MEASURES.items()],
        "in_file": {"runs": len(started), "worded": len(worded), "whole": len(whole), "prompts": options.prompts},
        **facts.by_position(),
        "tables": tables,
        "doubts": doubts_of(bank, view, argument),
        "blocks": list(run_blocks(bank, position, whole, prompts=options.prompts)),
    }


def whole_runs(runs: Sequence[str], failed: frozenset[str], named: Sequence[str]) -> list[str]:
    """Return the runs that go into the file with all their events, newest first: those named, then the newest, with
    half of the places kept for failures.
    """
    chosen = set(named).intersection(runs)
    newest = [run for run in reversed(runs) if run not in chosen]
    half = page_limits.PAGE_WHOLE_RUNS // 2
    first = newest[:half]
    failures = [run for run in newest[half:] if run in failed][: page_limits.PAGE_WHOLE_RUNS - len(first)]
    kept = {*first, *failures}
    rest = [run for run in newest if run not in kept][: page_limits.PAGE_WHOLE_RUNS - len(kept)]
    wanted = {*chosen, *kept, *rest}
    return [run for run in reversed(runs) if run in wanted]


def _failed(view: View) -> frozenset[str]:
    """Return the runs that were judged a failure or ended in an error."""
    rows = view.pick("runs", ("run", "verdict", "outcome"))
    return frozenset(str(run) for run, verdict, outcome in rows if verdict == "failure" or outcome == "failed")


def newest_runs(view: View) -> list[dict[str, Any]]:
    """Return the newest runs as the page shows them where no script runs."""
    rows = sorted(view.rows("runs"), key=lambda row: -row["started_seq"])[: page_limits.PAGE_SUMMARY_RUNS]
    return [
        {name: row[name] for name in ("run", "task", "started_at", "imported_at", "outcome", "verdict", "score")}
        for row in rows
    ]


def _summary(data: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Html:
    """Return the text of the page before, or without, its script."""
    bank = data["bank"]
    runs = data["in_file"]["runs"]
    forked = f" Forked from {bank['forked_from']}." if bank["forked_from"] else ""
    said = f"As of position {data['marks']['head']:,}: {plural(runs, 'run')}.{forked}"
    without = "Without JavaScript this page shows the newest runs and no more."
    return element(
        "main",
        element("h1", shorten(bank["name"])),
        element("p", shorten(bank["purpose"] or "", page_limits.DASHBOARD_PURPOSE_CHARS)),
        element("p", said),
        element("noscript", element("p", without, class_="note")),
        _runs_table(rows) if rows else element("p", "This bank holds no runs yet."),
    )


def _runs_table(rows: Sequence[dict[str, Any]]) -> Html:
    head = element("tr", *(element("th", name, scope="col") for name in ("Task", "Judged", "Score", "Began (UTC)")))
    cells = (
        (shorten(row["task"] or row["run"]), row["verdict"] or _ended(row), row["score"] or "–", _began(row))
        for row in rows
    )
    body = (element("tr", *(element("td", cell) for cell in row)) for row in cells)
    caption = element("caption", f"The newest {plural(len(rows), 'run')}")
    return element("div", element("table", caption, element("thead", head), element("tbody", *body)), class_="scroll")


def _ended(row: dict[str, Any]) -> str:
    return "ended in an error" if row["outcome"] == "failed" else "–"


def _began(row: dict[str, Any]) -> str:
    imported = f", imported on {row['imported_at'][:10]}" if row["imported_at"] else ""
    return minute(row["started_at"]) + imported


# ---------------------------------------------------------------- rows


TABLES = {
    "run_starts": ("run", "task", "task_id", "ontology", "endpoint", "executor", "model", "scripted", "simulated",
        "started_at", "imported_at", "experiment", "condition", "level", "family", "suite", "mode", "iterations_max",
        "rollout_group", "rollout_index"),
    "run_ends": ("run", "outcome", "iterations", "lm_calls", "tokens_in", "tokens_out", "cost_usd", "duration_s",
        "answer_chars", "error_code", "answer", "sparql", "error", "finished_at"),
    "verdicts": ("run", "purpose", "verdict", "judge", "kind", "sure", "overruled", "rank", "judged_seq"),
    "lm_calls": ("run", "role", "tokens_in", "tokens_out", "cost_usd"),
    "run_steps": ("run", "step"),
    "tool_calls": ("run", "tool", "chars", "truncated", "failed"),
    "contexts": ("run", "chars", "items_n", "l2_budget"),
    "step_sizes": ("run", "stdout_chars", "prompt_chars", "variables_n", "variables_chars"),
    "candidates": ("text", "extraction", "place", "item", "title", "desc", "content", "tags_json", "src", "polarity",
        "erased"),
    "extractions": ("extraction", "kind", "relied", "stands"),
    "relying": ("run", "number", "extraction"),
    "decisions": ("text", "action", "policy", "undone"),
    "item_states": ("item", "state", "born_seq", "ended_seq", "text", "vouched", "domains", "superseded_by"),
    "item_support": ("item", "text"),
    "exposures": ("item", "run", "way"),
    "policy_choices": ("kind", "name", "version", "settings"),
    "moments": ("at",),
    "learning_judgments": ("run", "judge", "verdict"),
}  # fmt: skip
"""The tables of the read models that the page needs, each with its columns; `from_seq` and `to_seq` come with all."""

WORDS = {"run_starts": ("task",), "run_ends": ("answer", "sparql", "error")}
"""The columns of words, of tables that begin with the run."""

Tables = dict[str, dict[str, Column]]


class EventFacts:
    """The facts of all events up to a position that the page needs and no read model keeps."""

    def __init__(self, bank: Bank, position: int) -> None:
        """Read the log once."""
        self._bank = bank
        self._policies: dict[str, PolicyChoice] = {}
        self._seqs: dict[str, int] = {}
        self.types: list[str] = []
        self.seconds: list[int] = []
        self.runs: list[str | None] = []
        self.judgments: list[tuple[Any, ...]] = []
        self.searches: list[tuple[Any, ...]] = []
        self.links: list[tuple[Any, ...]] = []
        for event in bank.events(point=position):
            self._add(event)

    def _add(self, event: Event) -> None:
        self.types.append(type_of(event))
        self.seconds.append(_seconds(event.at))
        self.runs.append(getattr(event, "run", None))
        match event:
            case PolicySet():
                # The authority of a judgment depends on the policies in force at its position.
                self._policies = {choice.kind: choice for choice in event.policies}
            case RunJudged() | JudgmentOverruled():
                self.judgments.append(self._judgment(event))
            case MemoriesRetrieved():
                self.searches.append((json_of([hit.id for hit in event.hits]), event.seq))
            case ItemsLinked():
                self.links.append((event.source, event.target, event.how, event.seq))
            case _:
                pass

    def _judgment(self, event: RunJudged | JudgmentOverruled) -> tuple[Any, ...]:
        self._seqs[event.id] = event.seq
        by: str | None = None
        why: str | None = ""
        former: str | None = None
        if isinstance(event, JudgmentOverruled):
            by, why, former = event.by, self._bank.text(event.why), event.judgment
        facts = (event.run, event.purpose, event.verdict, judge_label(event.judge, event.judge_version), event.kind)
        authority = AUTHORITIES[rank_of(event, self._policies)]
        said = (event.confidence, self._bank.text(event.reason), by, why, self._seqs.get(former or ""))
        return (*facts, authority, *said, event.occurred_at or event.at, event.seq)

    def tables(self, worded: Collection[str]) -> Tables:
        """Return the facts as tables, with the words of some runs only."""
        judged = ("run", "purpose", "verdict", "judge", "kind", "authority", "confidence", "reason", "by", "why")
        said = [judged.index("reason"), judged.index("why")]
        return {
            "judgments": packed_table(
                (*judged, "overrules", "time", "from_seq"), _without_words(self.judgments, said, worded)
            ),
            "searches": packed_table(("items", "from_seq"), self.searches),
            "item_links": packed_table(("source", "target", "how", "from_seq"), self.links),
        }

    def by_position(self) -> dict[str, Any]:
        """Return the type, the run and the second of each event, in the order of the log."""
        first = self.seconds[0] if self.seconds else 0
        return {
            "types": packed_column(self.types),
            "event_runs": packed_column(self.runs),
            "times": {"first": first, "offsets": packed_column([second - first for second in self.seconds])},
        }


def _seconds(at: str) -> int:
    return int(datetime.fromisoformat(at[:19]).replace(tzinfo=UTC).timestamp())


def exported_tables(view: View, facts: EventFacts, worded: Collection[str]) -> Tables:
    """Return all tables of the page as of the view's position, by name, each by column.

    Of the runs that are not in `worded` they have numbers and verdicts, and no words.
    """
    tables = {}
    for name, names in TABLES.items():
        rows = view.spans(name, names)
        hidden = [place for place, column in enumerate(names) if column in WORDS.get(name, ())]
        tables[name] = packed_table((*names, "from_seq", "to_seq"), _without_words(rows, hidden, worded))
    return tables | facts.tables(worded)


def _without_words(
    rows: Iterable[tuple[Any, ...]], hidden: Collection[int], worded: Collection[str]
) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if hidden and row[0] not in worded:
            yield tuple(None if place in hidden else value for place, value in enumerate(row))
        else:
            yield row


# ---------------------------------------------------------------- events of runs


_WHOLE_CHARS = 1 << 62
"""More than any text has: answers cut texts, the file holds them whole."""

_TEXT = frozenset({"text", "chars", "more"})
"""The keys of a text in an answer."""


def run_blocks(bank: Bank, position: int, runs: Sequence[str], *, prompts: bool) -> Iterator[dict[str, Any]]:
    """Yield blocks of the events of these runs up to a position."""
    found = _events_of(bank, position, frozenset(runs), prompts=prompts)
    for begin in range(0, len(runs), page_limits.PAGE_BLOCK_RUNS):
        part = runs[begin : begin + page_limits.PAGE_BLOCK_RUNS]
        lines = LineTable()
        events = {run: [_with_lines(event, lines) for event in found[run]] for run in part}
        yield {"runs": list(part), "packed": gzipped({"events": events, "lines": lines.lines})}


def _events_of(bank: Bank, position: int, runs: Collection[str], *, prompts: bool) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if runs:
        for event in bank.events(point=position, resolve=True):
            run = getattr(event, "run", None)
            if run is not None and run in runs:
                found[run].append(shown_event(event, prompts=prompts, chars=_WHOLE_CHARS))
    return found


def _with_lines(value: Any, lines: LineTable) -> Any:
    """Return an event with each whole text as {"t": words}, or as numbers of lines, which prompts share."""
    if isinstance(value, list):
        return [_with_lines(each, lines) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == _TEXT and isinstance(value["text"], str):
        text = value["text"]
        return {"t": lines.put(text) if len(text) > page_limits.PAGE_LINED_CHARS else text}
    return {name: _with_lines(each, lines) for name, each in value.items()}
