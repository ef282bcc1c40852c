"""The counts of health equal those that a plain pass over the events gives, at every point."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rbank_es.events import Event, JudgmentOverruled, MemoriesRetracted, RunFinished, RunJudged
from rbank_es.law import State, counted_uses, evolve, fold
from rbank_es.limits import WIN_RATE_USES
from rbank_es.projections.read_models import ReadModels
from tests.effort import examples
from tests.fakes import FakeLog
from tests.strategies import histories, stamped

logs = histories(
    min_size=8,
    max_size=40,
    chapters=(
        *("learned",) * 4,
        "context",
        "context",
        "read",
        "judged",
        "judged",
        "judged",
        "ended",
        "corrected",
        "set",
    ),
).map(stamped)
law = settings(max_examples=examples(40), deadline=None)


def verdict_on(state: State, run: str) -> str | None:
    found = state.verdicts.get((run, "learning"))
    return None if found is None else found.verdict


def plain_wins(state: State) -> dict[str, int]:
    """Wins of all uses, of the last 20 and of the 20 before, in order of the position at which the use began."""
    uses = sorted((seq, item, run) for item, runs in counted_uses(state).items() for run, seq in runs.items())
    verdicts = [verdict_on(state, run) for _, _, run in uses]
    last, before = verdicts[-WIN_RATE_USES:], verdicts[-2 * WIN_RATE_USES : -WIN_RATE_USES]
    return {
        "uses": len(uses),
        "wins": verdicts.count("success"),
        "losses": verdicts.count("failure"),
        "wins_last": last.count("success"),
        "decided_last": last.count("success") + last.count("failure"),
        "wins_before": before.count("success"),
        "decided_before": before.count("success") + before.count("failure"),
    }


def plain_spread(state: State) -> dict[str, int]:
    """Uses of the active items that agents may be given, and those of the tenth that is used most."""
    given = [
        len(counted_uses(state).get(id, ()))
        for id, entry in state.items.items()
        if entry.state == "active" and entry.item.src not in ("principle", "episode")
    ]
    top = -(-len(given) // 10)
    most = sorted(given, reverse=True)[:top]
    return {
        "for_agents": len(given),
        "never_used": given.count(0),
        "active_uses": sum(given),
        "top_items": top,
        "top_uses": sum(most),
    }


def plain_verdicts(log: Sequence[Event], state: State) -> dict[str, int]:
    """Standing verdicts, and what each judge said last of a run."""
    by_run = {run: each for (run, purpose), each in state.verdicts.items() if purpose == "learning"}
    standing = by_run.values()
    overruled = set[str]()
    said: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for event in log:
        if isinstance(event, RunJudged | JudgmentOverruled) and event.purpose == "learning":
            said[event.run][event.judge] = event.verdict
            stands = by_run.get(event.run)
            if stands and stands.overruled and event.seq < stands.seq and event.verdict != stands.verdict:
                overruled.add(event.run)
    decided = [[each for each in by_judge.values() if each != "undecided"] for by_judge in said.values()]
    return {
        "judged": len(standing),
        "undecided": sum(each.verdict == "undecided" for each in standing),
        "overruled": len(overruled),
        "judged_twice": sum(len(verdicts) > 1 for verdicts in decided),
        "disagreed": sum(len(set(verdicts)) > 1 for verdicts in decided),
    }


def plain_recalls(log: Sequence[Event]) -> dict[str, int]:
    """The latest end of each run: whether what was recalled was sent."""
    ends = {event.run: event.recall_sent for event in log if isinstance(event, RunFinished)}
    told = [sent for sent in ends.values() if sent is not None]
    return {"recalls": len(told), "recalls_not_sent": told.count(False)}


def resting_on_one(state: State) -> set[str]:
    """The active items that end if a person leaves any one run undecided."""
    found = set[str]()
    for run in {run for run, purpose in state.verdicts if purpose == "learning"}:
        doubt: Any = {"run": run, "verdict": "undecided", "kind": "human", "purpose": "learning"}
        other = evolve(
            state, JudgmentOverruled(seq=state.position + 1, judge="p", judge_version="1", by="p", id="x", **doubt)
        )
        found |= {
            id
            for id, entry in state.items.items()
            if entry.state == "active" and other.items[id].state == "unsupported"
        }
    return found


def plain_health(log: Sequence[Event]) -> dict[str, int]:
    """Every count by its definition."""
    state = fold(log)
    actions = Counter(pair.action for pair in state.pairs.values() if not pair.undone)
    return {
        "active": sum(entry.state == "active" for entry in state.items.values()),
        "items": len(state.items),
        "candidates": actions.total(),
        "added": actions["add"],
        "repeated": actions["skip"] + actions["merge"],
        **plain_wins(state),
        **plain_spread(state),
        **plain_verdicts(log, state),
        **plain_recalls(log),
        "on_one_verdict": len(resting_on_one(state)),
    }


def no_doubt_brings_aside(log: Sequence[Event]) -> bool:
    """Whether no extraction is set aside while a run is undecided: then doubt about a run would end it so too."""
    return not any(isinstance(event, MemoriesRetracted) and event.verdict == "undecided" for event in log)


@law
@given(logs, st.integers(0, 80))
def test_the_counts_of_health_are_those_of_the_events_at_every_point(log: list[Event], cut: int) -> None:
    assume(no_doubt_brings_aside(log))
    with TemporaryDirectory() as folder:
        models, fake = ReadModels.open(Path(folder) / "p.sqlite"), FakeLog(log)
        models.catch_up(fake)
        for position in {min(cut, len(log)), len(log)}:
            with models.as_of(position, fake) as view:
                assert view.rows("bank_health") == [plain_health(log[:position])]
                by_source = Counter((e.item.src, e.state) for e in fold(log[:position]).items.values())
                assert {(r["src"], r["state"]): r["items"] for r in view.rows("items_by_source")} == by_source
