"""The rows of a bank that an exported page computes its answers from: intervals of positions, as the read models have
them, and a few facts of events that no read model keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.dashboard.packing import Column, packed_column, packed_table
from rbank_es.events import Event, type_of
from rbank_es.events.memory_events import ItemsLinked
from rbank_es.events.run_events import JudgmentOverruled, MemoriesRetrieved, RunJudged, RunStarted
from rbank_es.projections.view import View

BINS = 200
"""Bins of positions in which the whole log is drawn."""

NOTABLE = frozenset({
    "judgment_overruled", "memories_retracted", "memories_forgotten", "memories_restored", "memories_admitted",
    "decision_undone", "content_erased", "policy_set",
})  # fmt: skip
"""Types of events that change what was believed before."""

TABLES = {
    "run_starts": ("run", "task", "task_id", "ontology", "endpoint", "executor", "model", "scripted", "simulated",
        "started_at"),
    "run_ends": ("run", "outcome", "iterations", "lm_calls", "tokens_in", "tokens_out", "cost_usd", "duration_s",
        "error_code", "answer", "sparql", "error"),
    "verdicts": ("run", "purpose", "verdict", "judge", "kind", "sure", "confidence", "overruled", "judged_seq"),
    "lm_calls": ("run", "role", "tokens_in", "tokens_out", "cost_usd"),
    "run_steps": ("run", "step"),
    "tool_calls": ("run", "tool", "chars", "truncated", "failed"),
    "contexts": ("run", "chars", "items_n"),
    "step_sizes": ("run", "stdout_chars", "prompt_chars", "variables_n", "variables_chars"),
    "candidates": ("text", "extraction", "place", "item", "title", "desc", "content", "tags_json", "src", "polarity",
        "role", "scope", "domain", "erased"),
    "extractions": ("extraction", "kind", "pending", "size", "extracted_seq", "runs", "relied", "stands"),
    "decisions": ("text", "action", "targets", "first_seq", "policy", "undone"),
    "item_states": ("item", "state", "born_seq", "text", "vouched", "domains", "superseded_by"),
    "item_support": ("item", "text"),
    "exposures": ("item", "run", "way"),
    "policy_choices": ("kind", "name", "version", "settings"),
    "moments": ("kind", "activity"),
    "learning_judgments": ("run", "judge", "verdict"),
}  # fmt: skip
"""The tables of the read models that the page needs, each with its columns; `from_seq` and `to_seq` come with all."""

Tables = dict[str, dict[str, Column]]


class EventFacts:
    """The facts of all events up to a position that the page needs and no read model keeps."""

    def __init__(self, bank: Bank, position: int) -> None:
        """Read the log once."""
        self._bank = bank
        self.types: list[str] = []
        self.seconds: list[int] = []
        self.runs: list[str | None] = []
        self.judgments: list[tuple[Any, ...]] = []
        self.searches: list[tuple[str, int]] = []
        self.links: list[tuple[Any, ...]] = []
        self.experiments: dict[str, tuple[str | None, str | None]] = {}
        for event in bank.events(point=position):
            self._add(event)

    def _add(self, event: Event) -> None:
        self.types.append(type_of(event))
        self.seconds.append(_seconds(event.at))
        self.runs.append(getattr(event, "run", None))
        match event:
            case RunStarted():
                trial = event.trial
                self.experiments.setdefault(event.run, (trial.experiment, trial.condition) if trial else (None, None))
            case RunJudged() | JudgmentOverruled():
                self.judgments.append((*_judgment(event), self._bank.text(event.reason), event.seq))
            case MemoriesRetrieved():
                self.searches.append((msgspec.json.encode([hit.id for hit in event.hits]).decode(), event.seq))
            case ItemsLinked():
                self.links.append((event.source, event.target, event.how, event.by, event.seq))
            case _:
                pass

    def tables(self) -> Tables:
        """Return the facts as tables."""
        judged = ("run", "purpose", "verdict", "judge", "kind", "sure", "confidence", "reason", "from_seq")
        return {
            "judgments": packed_table(judged, self.judgments),
            "searches": packed_table(("items", "from_seq"), self.searches),
            "item_links": packed_table(("source", "target", "how", "by", "from_seq"), self.links),
        }

    def notable(self) -> list[dict[str, Any]]:
        """Return the newest notable changes of the log, oldest first."""
        found = [seq for seq, name in enumerate(self.types, 1) if name in NOTABLE][-limits.PAGE_NOTABLE :]
        return [{"seq": seq, "type": self.types[seq - 1], "run": self.runs[seq - 1]} for seq in found]

    def kinds(self, view: View) -> dict[str, list[int]]:
        """Return the number of events in each bin of the log, by kind."""
        positions = {
            "starts": [row[-2] for row in view.spans("run_starts", ())],
            "ends": [seq for seq, name in enumerate(self.types, 1) if name == "run_finished"],
            "verdicts": [row[-2] for row in view.spans("verdicts", ())],
            "memory": sorted({row[-2] for row in view.spans("item_states", ())}),
            "notable": [seq for seq, name in enumerate(self.types, 1) if name in NOTABLE],
        }
        return {name: self._binned(found) for name, found in positions.items()}

    def _binned(self, positions: Iterable[Any]) -> list[int]:
        bins = [0] * BINS
        for position in positions:
            bins[(position - 1) * BINS // len(self.types)] += 1
        return bins

    def by_position(self) -> dict[str, Any]:
        """Return the type, the run and the second of each event, in the order of the log."""
        first = self.seconds[0] if self.seconds else 0
        return {
            "types": packed_column(self.types),
            "event_runs": packed_column(self.runs),
            "times": {"first": first, "offsets": packed_column([second - first for second in self.seconds])},
        }


def _seconds(at: str) -> int:
    return int(datetime.fromisoformat(at[:19]).replace(tzinfo=timezone.utc).timestamp())


def _judgment(event: RunJudged | JudgmentOverruled) -> tuple[Any, ...]:
    facts = (event.run, event.purpose, event.verdict, event.judge, event.kind, int(event.sure), event.confidence)
    return facts


def exported_tables(view: View, facts: EventFacts) -> Tables:
    """Return all tables of the page as of the view's position, by name, each by column."""
    tables = {name: packed_table((*columns, "from_seq", "to_seq"), _rows(view, name)) for name, columns in TABLES.items()}
    started = [row[0] for row in view.spans("run_starts", ("run",))]
    of_runs = [facts.experiments.get(str(run), (None, None)) for run in started]
    tables["run_starts"]["experiment"] = packed_column([experiment for experiment, _ in of_runs])
    tables["run_starts"]["condition"] = packed_column([condition for _, condition in of_runs])
    return tables | facts.tables()


def _rows(view: View, table: str) -> Iterator[tuple[Any, ...]]:
    return iter(view.spans(table, TABLES[table]))
