"""Unit and meaning of every field that people and programs meet: in answers, and in the database for people.

A name means the same everywhere, unless a table, a question or a type is named before it (`policies.kind`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

POSITION = "position in the log"
CHARS = "characters"
TIME = "UTC time, ISO 8601"
NUMBER = "number"
SHARE = "share, 0 to 1"
BOOLEAN = "true or false; 1 or 0 in SQL"
TEXT = "text"
ID = "id"
LIST = "JSON list"
OBJECT = "JSON object"
NAME = "name"
DIFFERENCE = "difference of shares"
SECONDS = "seconds"
DOLLARS = "US dollars"

_WHOLE = (POSITION, CHARS, NUMBER, BOOLEAN)
_FRACTIONS = (SHARE, DIFFERENCE, SECONDS, DOLLARS)

COLUMNS: Mapping[str, tuple[str, str]] = {
    "active": (NUMBER, "active items"),
    "active_uses": (NUMBER, "uses of the active items"),
    "bank_health.added": (NUMBER, "candidates that became items"),
    "after": ("JSON object, or a value", "how it is at `position`; null: it isn't there"),
    "action": (NAME, "what was decided about the candidate: add, skip, merge, supersede, discard; null: nothing yet"),
    "answer": (TEXT, "the run's final answer; null: none, or erased"),
    "answer_chars": (CHARS, "length of the answer; null: unknown"),
    "at": (TIME, "when the event was recorded"),
    "author": (NAME, "who wrote the message of a prompt: system, user, assistant; null: the text is no message"),
    "authority": (
        NAME,
        "of the judgment: a person, the right answer, a check, a model, undecided; null: nobody judged the run",
    ),
    "JudgmentRow.authority": (
        NAME,
        "who decides: a person, the right answer, a check, a model, undecided, or it doesn't count",
    ),
    "best": (NUMBER, "score of the best match of any polarity; null: it doesn't count"),
    "bank": (NAME, "the bank's name"),
    "bank_id": (ID, "the bank's id, made with it and never changed"),
    "before": ("JSON object, or a value", "how it was at `since_seq`; null: it wasn't there"),
    "beyond": (LIST, "events behind what two banks share: of the bank before, of the one after"),
    "block": (OBJECT, "the block of the text"),
    "born_seq": (POSITION, "the decision that made the item"),
    "bound": (NAME, "the limit at which the run was stopped; null: none"),
    "budget": (CHARS, "what the layer was allowed; null: unknown"),
    "by": (NAME, "who overruled another judgment; null: it overruled none"),
    "calls": (NUMBER, "calls of the tool"),
    "candidate": (ID, "the extraction's id, #, and the candidate's place in it"),
    "candidates": (NUMBER, "candidates decided on up to there"),
    "added": (NUMBER, "candidates up to there that became items"),
    "bank_health.candidates": (NUMBER, "candidates decided on"),
    "chars": (CHARS, "length of the whole text; null: erased"),
    "LayerRow.chars": (CHARS, "length of the layer, titles and markup included"),
    "column_name": (NAME, "a column of that table or view"),
    "condition": (NAME, "the experiment's condition; null: it belongs to no experiment"),
    "confidence": (SHARE, "how sure the judge was; null: it didn't say"),
    "content": (TEXT, "steps, reasons and insights; empty where erased"),
    "context_size": (CHARS, "the largest context that the run was given; null: it had none built"),
    "claimed_seq": (POSITION, "up to where two banks share their log by their ancestry"),
    "FlagCounts.context_size": (NUMBER, "contexts with more characters"),
    "coverage": (SHARE, "of the query's words, weighed by how rare they are, those that the item has; null: not told"),
    "cost_usd": (DOLLARS, "what its model calls cost; null: unknown"),
    "course": (LIST, "moments at which the memory, or what is known of its uses, changed"),
    "decided_before": (NUMBER, "of the uses before the last ones, those judged a success or a failure"),
    "decided_last": (NUMBER, "of the last uses, those judged a success or a failure"),
    "desc": (TEXT, "one sentence"),
    "disagreed": (NUMBER, "of the runs with several judges, those on which they differ"),
    "domain": (ID, "the ontology that the item is about; null: none"),
    "domains": (LIST, "the domains of all candidates that support the item"),
    "Health.due": (LIST, "ids of the extractions whose cause changed, and which are to be corrected"),
    "duplicate_rate": (SHARE, "skipped and merged candidates among all up to there; null: no candidate"),
    "duration_s": (SECONDS, "from the run's start to its end; null: unknown"),
    "ended_seq": (POSITION, "what ended the item; null: it didn't end"),
    "endpoint": (NAME, "the SPARQL endpoint that was asked; null: none"),
    "erased": (BOOLEAN, "whether the words were erased"),
    "error": (TEXT, "why the run failed; null: it didn't"),
    "error_code": (NAME, "the kind of failure; null: it didn't fail"),
    "errors": (NUMBER, "calls that returned an error"),
    "event": (OBJECT, "the event"),
    "events": (LIST, "a page of the run's events, oldest first; null: there is no log"),
    "events_next_seq": (POSITION, "behind which the next page of the run's events begins; null: there is none"),
    "events_total": (NUMBER, "the run's events on all pages; null: there is no log"),
    "executor": (NAME, "what ran the agent: rlm, react, scratchpad, ...; null: unknown"),
    "experiment": (NAME, "the experiment that the run belongs to; null: none"),
    "extraction": (ID, "the extraction that the candidate, or the item's words, come from"),
    "facts": (OBJECT, "the facts of the event's type that are known; `rbank-es schema TYPE` says what they are"),
    "failed_runs": (LIST, "errors that ended runs, each with the newest of these"),
    "fallback": (NAME, "why another ranking took the policy's place; null: none did"),
    "family": (NAME, "the task's family; null: none"),
    "finished_at": (TIME, "when the run ended; null: it didn't yet"),
    "finished_seq": (POSITION, "the end of the run; null: it didn't end yet"),
    "first_seq": (POSITION, "the first decision about the candidate; null: none"),
    "first_used_seq": (POSITION, "the item's first use"),
    "flag": (NAME, "the limit that was passed: single_return, items_injected, context_size, l2_budget"),
    "for_agents": (NUMBER, "active items that agents can be given"),
    "uses.from_seq": (POSITION, "the use"),
    "counted_uses.from_seq": (POSITION, "the use"),
    "head": (ID, "position and digest of everything up to it"),
    "head_seq": (POSITION, "up to where two banks have the same events, as digests prove"),
    "flags": (OBJECT, "the number of red flags of each kind"),
    "given": (LIST, "the items that the run was given in full, in order"),
    "high": (SHARE, "upper end of that interval; null: as low"),
    "hit_rank": (NUMBER, "the item's place among the hits of the latest search that found it, from 1; null: none did"),
    "hit_score": (NUMBER, "the score of that hit, of the retrieval policy; null: none"),
    "floor": (OBJECT, "the figures that a hit must reach; null: none"),
    "hits": (LIST, "the items that the search gives, best first"),
    "id": (ID, "the item's id"),
    "due.id": (ID, "what is due: an extraction, a run or an item"),
    "EventRow.id": (ID, "the event's id"),
    "WholeEvent.id": (ID, "the event's id"),
    "imported_at": (TIME, "when the run was imported; null: it was recorded as it happened"),
    "item": (ID, "an item's id"),
    "Stock.items": (NUMBER, "how many"),
    "BankDifference.items": (LIST, "the items that differ"),
    "items": (NUMBER, "items"),
    "items_injected": (NUMBER, "items in the run's context; null: it had none built"),
    "FlagCounts.items_injected": (NUMBER, "contexts with more items"),
    "iterations": (NUMBER, "steps that the agent took"),
    "iterations_max": (NUMBER, "steps that it was allowed; null: unknown"),
    "judge": (NAME, "the judge whose verdict stands; null: nobody judged the run"),
    "JudgmentRow.judge": (NAME, "the judge"),
    "judge_version": (NAME, "that judge's version"),
    "judged": (NUMBER, "runs with a verdict for learning"),
    "judged_at": (TIME, "when the judgment was made"),
    "judged_seq": (POSITION, "the judgment that stands; null: none"),
    "judged_twice": (NUMBER, "runs on which several judges decided"),
    "judgments": (LIST, "the run's judgments in order, whether they stand or not; null: there is no log"),
    "k": (NUMBER, "hits at most"),
    "kind": (NAME, "of the judge: human, gold, check or lm; null: nobody judged the run"),
    "policies.kind": (NAME, "what the policy decides: retrieval, consolidation, ..."),
    "due.kind": (NAME, "what kind of work is due"),
    "JudgmentRow.kind": (NAME, "of the judge: human, gold, check or lm"),
    "LearnedRow.kind": (NAME, "of the extraction: success, failure, contrastive, pattern, seed, manual"),
    "FlagCounts.l2_budget": (NUMBER, "contexts whose layer L2 was allowed more"),
    "landed": (LIST, "ids of the items that the candidate supports now"),
    "large_returns": (NUMBER, "tool returns of over 1,000 characters"),
    "last_at": (TIME, "when the last event was recorded; null: the bank is empty"),
    "last_used_seq": (POSITION, "the item's last use"),
    "layer": (NAME, "base, L0, L1, L2 or L3"),
    "layers": (LIST, "the layers of the run's latest context; null: there is no log"),
    "leakage": (OBJECT, "what the run put before the model"),
    "leakage_by_tool": (LIST, "what the calls of each tool returned"),
    "learned": (LIST, "the candidates that were drawn from the run, in order"),
    "level": (NUMBER, "the task's level; null: none"),
    "lm_calls": (NUMBER, "calls of a model, of every role; null: unknown"),
    "losses": (NUMBER, "of the uses that count, runs judged a failure"),
    "bank_health.losses": (NUMBER, "of those, with a run judged a failure"),
    "low": (SHARE, "lower end of the interval of an estimated rate (Wilson, 95 %); null: it is counted, or of nothing"),
    "max_single_return": (CHARS, "the longest tool return; null: a size was not recorded"),
    "matched": (LIST, "the words of the query that the item has"),
    "meaning": (TEXT, "what the column says"),
    "Measure.meaning": (TEXT, "what is counted"),
    "measures": (LIST, "shares of runs, items or candidates, each with its counts"),
    "memory_items_injected": (NUMBER, "items in the run's context; null: it had none built"),
    "mode": (NAME, "how the run was given memory: auto, tool or both; null: none, or unknown"),
    "model": (NAME, "the agent's model; null: unknown"),
    "policies.name": (NAME, "the policy in force"),
    "Measure.name": (NAME, "the measure"),
    "near": (NAME, "how the item's domains relate to the query's: own, none, other; null: not asked"),
    "near_rejected": (LIST, "ids of the rejected items because of which a pending item waits"),
    "never_used": (NUMBER, "of `for_agents`, items that no run was given"),
    "next": (ID, "the key of the last row here, behind which the next page begins; null: this is the last page"),
    "next_offset": (CHARS, "where the text goes on, for the question `text`; null: it ends here"),
    "novelty_rate": (SHARE, "added candidates among all up to there; null: no candidate"),
    "occurred_at": (TIME, "when it happened; of an imported event, before it was recorded here"),
    "on_one_verdict": (NUMBER, "active items that rest on one verdict alone"),
    "ontology": (ID, "the ontology that the task is about; null: none"),
    "origin": (ID, "the bank that recorded the event first; null: this one"),
    "outcome": (NAME, "how the run ended: submitted, forced_at_limit, stalled, failed; null: it didn't yet"),
    "overruled": (BOOLEAN, "whether the verdict that stands overruled another; null: nobody judged the run"),
    "bank_health.overruled": (NUMBER, "runs whose verdict was overruled"),
    "overruled_seq": (POSITION, "the judgment that overruled this one; null: none did"),
    "part": (NUMBER, "how many of them"),
    "path": (NAME, "the text in its event: a field, an index in it, a field of that"),
    "pending": (BOOLEAN, "whether its item waits for a person, being near to rejected words; null: undecided"),
    "difference.kind": (NAME, "what the policy decides: retrieval, consolidation, ..."),
    "lineage": (ID, "the bank from which both descend"),
    "place": (NUMBER, "the candidate's place in its extraction, from 0"),
    "polarity": (NAME, "success: a strategy; failure: a guardrail; null: the bank knows no such item"),
    "BankDifference.policies": (LIST, "the policies and settings that differ"),
    "policy": (NAME, "the policy that decided, with its version"),
    "position": (POSITION, "the head of the bank when this file was written"),
    "prompt_chars_max": (CHARS, "the longest prompt of the run; null: unknown"),
    "purpose": (NAME, "learning: lessons follow from it; scoring: for measurement alone"),
    "quarter": (NUMBER, "the quarter of the bank's runs in which the run began, 1 to 4"),
    "query": (TEXT, "the words that were searched for"),
    "FoundItem.rank": (NUMBER, "its place among the hits, from 1; 0: withheld"),
    "rank": (
        NUMBER,
        "authority of the verdict that stands: 5 a person, 4 gold, 3 a sure check, 2 a model, 1 a check, "
        "0 undecided; null: none",
    ),
    "rate": (SHARE, "part of whole; null: there is nothing to count"),
    "reason": (TEXT, "why the run was judged so; null: nobody judged it, the words were erased, or there is no log"),
    "FailedRuns.reason": (TEXT, "the error, as the newest of the runs has it"),
    "recorded_at": (TIME, "when the event was recorded in this bank"),
    "red_flags": (NUMBER, "limits of leakage that the run passed"),
    "RunAnswer.red_flags": (LIST, "the limits of leakage that the run passed"),
    "Leakage.red_flags": (LIST, "the newest red flags"),
    "relation": (NAME, "how the source led to the target"),
    "release": (NAME, "the release of rbank-es that wrote this file"),
    "relied": (LIST, "the verdicts that the extraction relied on: of each the run and the verdict"),
    "repeated": (NUMBER, "candidates that repeat an item"),
    "role": (NAME, "the role that the item serves; null: any"),
    "rollout_group": (ID, "the runs of one task made side by side; null: it ran alone"),
    "rollout_index": (NUMBER, "its number among them, from 0; null: it ran alone"),
    "rows": (LIST, "the rows of this page"),
    "rows_left_out": (NUMBER, "rows about runs and items that the bank doesn't know"),
    "run": (ID, "a run's id"),
    "EventRow.run": (ID, "the event's run; null: it belongs to none"),
    "WholeEvent.run": (ID, "the event's run; null: it belongs to none"),
    "FailedRuns.run": (ID, "the newest of these runs"),
    "RunAnswer.run": (OBJECT, "the run as the question `runs` lists it"),
    "FailedRuns.runs": (NUMBER, "runs that ended in this error"),
    "BankDifference.runs": (LIST, "the runs that differ"),
    "ItemRow.runs": (LIST, "ids of the runs that the item, or what supports it, was drawn from"),
    "scope": (NAME, "how far the item holds: general, exception, or not said"),
    "FoundItem.score": (NUMBER, "by the retrieval policy: farther from 0 is better"),
    "Floor.coverage": (SHARE, "the least coverage; null: it doesn't count"),
    "Floor.score": (NUMBER, "the least score, without the sign; null: it doesn't count"),
    "share_of_best": (SHARE, "the least share of `best`; null: it doesn't count"),
    "share": (SHARE, "of the query, what the word weighs"),
    "score": (NAME, "the verdict by the right answer, for measurement alone; null: not scored"),
    "score_reason": (TEXT, "why the run was scored so; null: not scored, erased, or there is no log"),
    "scored_seq": (POSITION, "the judgment with that score; null: not scored"),
    "scripted": (BOOLEAN, "whether a script stood in for the model"),
    "seq": (POSITION, "the event that says so"),
    "settings": (OBJECT, "the policy's settings"),
    "setting": (NAME, "the setting that differs; null: another policy, or version, is in force"),
    "shared": (OBJECT, "what two banks of a lineage share; null: it is one bank, or they share nothing"),
    "simulated": (BOOLEAN, "whether run and model are simulated"),
    "since_seq": (POSITION, "from where this holds; null: nothing was decided"),
    "difference.since_seq": (POSITION, "the state before: changes are those behind it"),
    "since_bank": (NAME, "the bank or file of the state before; null: the same bank"),
    "series": (LIST, "the health at earlier points"),
    "FlagCounts.single_return": (NUMBER, "calls of tools that returned more than is good"),
    "size": (NUMBER, "active items there"),
    "skipped": (NUMBER, "candidates up to there that supported an item"),
    "source": (ID, "what the edge begins at"),
    "source_kind": (NAME, "what kind of thing that is"),
    "sparql": (TEXT, "the query behind the answer; null: none, or erased"),
    "src": (NAME, "where the item comes from: success, failure, contrastive, pattern, seed, principle, episode"),
    "stands": (BOOLEAN, "whether it stands"),
    "started_at": (TIME, "when the run began"),
    "started_seq": (POSITION, "the start of the run"),
    "state": (
        NAME,
        "of the item: active, pending, superseded, merged, forgotten, unsupported, withdrawn, rejected; null: unknown",
    ),
    "state_then": (NAME, "the item's state when the run was given it; null: it had none"),
    "stdout_chars": (CHARS, "what the run's code printed; null: unknown"),
    "steps": (NUMBER, "steps recorded"),
    "stock": (LIST, "the number of items by source and state"),
    "subcalls": (NUMBER, "calls of a model by the agent's own code"),
    "suite": (NAME, "the suite that the task is from; null: none"),
    "summary": (TEXT, "a sentence about the event, of 300 characters at most"),
    "superseded_by": (LIST, "ids of the items that took its place"),
    "support": (NUMBER, "distinct runs that taught the item, and whose verdicts stand; what no run taught counts once"),
    "sure": (BOOLEAN, "whether a check was sure of the verdict; null: nobody judged the run"),
    "JudgmentRow.sure": (BOOLEAN, "whether a check is sure of it"),
    "table_name": (NAME, "a table or view of this file"),
    "tags": (LIST, "free labels"),
    "target": (ID, "what the edge leads to"),
    "target_kind": (NAME, "what kind of thing that is"),
    "targets": (LIST, "ids of the items that the decision names; null: nothing was decided"),
    "task": (TEXT, "the question that the run was asked; null: none, or erased"),
    "FailedRuns.task": (TEXT, "the question that the newest was asked; null: none, or erased"),
    "task_id": (ID, "the task's id; null: it has none"),
    "text": (TEXT, "the words, or their beginning; null: erased, left out because they are a prompt, or not recorded"),
    "texts": (LIST, "the event's texts, in order"),
    "threshold": (NUMBER, "the limit"),
    "title": (TEXT, "the lesson in about ten words; empty where erased"),
    "GivenRow.title": (TEXT, "the item's title; empty where erased; null: the bank knows no such item"),
    "LearnedRow.title": (TEXT, "the candidate's title; empty where erased; null: unknown"),
    "tokens": (NUMBER, "tokens in and out; null: unknown"),
    "tokens_in": (NUMBER, "tokens sent to models; null: unknown"),
    "tokens_out": (NUMBER, "tokens that models wrote; null: unknown"),
    "tool": (NAME, "a tool's name; null: the flag is about no tool"),
    "tool_calls": (NUMBER, "calls of tools"),
    "tools": (LIST, "what each tool returned to all runs"),
    "top_items": (NUMBER, "a tenth of `for_agents`, rounded up"),
    "top_uses": (NUMBER, "uses of the `top_items` most used items"),
    "total": (NUMBER, "rows on all pages"),
    "total_chars_returned": (CHARS, "what tools returned in all; null: a size was not recorded"),
    "truncated": (NUMBER, "returns that were cut"),
    "LayerRow.truncated": (BOOLEAN, "whether something was left out of the layer"),
    "type": (NAME, "the event's type; `rbank-es schema` lists them"),
    "undecided": (NUMBER, "runs whose verdict is undecided"),
    "undone": (BOOLEAN, "whether the decision was undone; null: nothing was decided"),
    "unit": (TEXT, "the column's unit, or what its values are"),
    "uses": (NUMBER, "runs that were given the item and count"),
    "health_over_time.uses": (NUMBER, "judged uses up to there"),
    "bank_health.uses": (NUMBER, "judged uses"),
    "value": (NUMBER, "the value that passed it"),
    "variables_chars": (CHARS, "the most that the variables of the run's code held; null: unknown"),
    "variables_n": (NUMBER, "the most variables of the run's code; null: unknown"),
    "verdict": (NAME, "success, failure or undecided, as it stands for learning; null: nobody judged the run"),
    "verdicts.verdict": (NAME, "success, failure or undecided, as it stands for that purpose"),
    "JudgmentRow.verdict": (NAME, "success, failure or undecided"),
    "version": (NUMBER, "the policy's version"),
    "vouched": (BOOLEAN, "whether a person restored or admitted the item"),
    "word": (TEXT, "a word of the query"),
    "way": (NAME, "how the run was given the item: injected into its context, or read in full"),
    "whole": (NUMBER, "of how many"),
    "win_rate": (SHARE, "wins among wins and losses; null: no use was decided"),
    "why": (TEXT, "why an earlier judgment was wrong; null: it overruled none, or erased"),
    "win_rate_before": (SHARE, "wins among the uses before the last ones; null: too few"),
    "win_rate_drift": (DIFFERENCE, "win_rate_last less win_rate_before; null: too few"),
    "win_rate_high": (SHARE, "upper end of the interval of win_rate (Wilson, 95 %); null: no use was decided"),
    "win_rate_last": (SHARE, "wins among the last judged uses; null: none"),
    "win_rate_low": (SHARE, "lower end of the interval of win_rate (Wilson, 95 %); null: no use was decided"),
    "withheld": (LIST, "the matches that the policy keeps back, because they are below its floor"),
    "FoundItem.withheld": (
        NAME,
        "what is below the floor: score, share_of_best, coverage; null: it is a hit",
    ),
    "wins": (NUMBER, "of the uses that count, runs judged a success"),
    "bank_health.wins": (NUMBER, "of those, with a run judged a success"),
    "wins_before": (NUMBER, "of `decided_before`, those judged a success"),
    "wins_last": (NUMBER, "of `decided_last`, those judged a success"),
    "won": (BOOLEAN, "whether the run was judged a success"),
}
"""Unit and meaning by name, or by table and name."""


class GlossaryEntry(NamedTuple):
    """Unit and meaning of a field, and the name under which they are known: its own, or with a table before it."""

    key: str
    unit: str
    meaning: str


def entry_of(name: str, *tables: str) -> GlossaryEntry | None:
    """Return the entry of a field: that of the first of some tables that has one, else the one that holds everywhere.

    None for a field without a meaning.
    """
    keys = [*(f"{table}.{name}" for table in tables), name]
    return next((GlossaryEntry(key, *COLUMNS[key]) for key in keys if key in COLUMNS), None)


def describe_columns(table: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return a row of the table `columns` for each column of a table. Raises `KeyError` for one without a meaning."""
    found = [(name, _entry(table, name)) for name in names]
    return [
        {"table_name": table, "column_name": name, "unit": entry.unit, "meaning": entry.meaning}
        for name, entry in found
    ]


def column_type(table: str, name: str) -> type:
    """Return the type that a column is created with. Raises `KeyError` for one without a meaning."""
    unit = _entry(table, name).unit
    return int if unit in _WHOLE else float if unit in _FRACTIONS else str


def _entry(table: str, name: str) -> GlossaryEntry:
    found = entry_of(name, table)
    if found is None:
        raise KeyError(f"{table}.{name}")
    return found
