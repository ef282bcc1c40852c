"""The rows of a bank that an exported page computes its answers from: intervals of positions, as the read models have
them, and a few facts of events that no read model keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from rbank_es.bank import Bank
from rbank_es.bank.run_judgments import AUTHORITIES
from rbank_es.dashboard.packed_data import Column, packed_column, packed_table
from rbank_es.events import Event, PolicyChoice, type_of
from rbank_es.events.bank_events import PolicySet
from rbank_es.events.memory_events import ItemsLinked
from rbank_es.events.run_events import JudgmentOverruled, MemoriesRetrieved, RunJudged
from rbank_es.projections.projection import json_of
from rbank_es.projections.view import View
from rbank_es.state.memory import rank_of

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
        facts = (event.run, event.purpose, event.verdict, f"{event.judge}-{event.judge_version}", event.kind)
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
