"""A run is one thing, whichever way its events were read: the reader, the fold and the whole log agree on it."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.bank.run_judgments import judgments_of, ranked, standing
from rbank_es.events import Event, MemoriesExtracted, RunJudged, RunStarted, type_of
from rbank_es.law import fold
from rbank_es.law.validity import authority_name
from rbank_es.log.run_reader import RunEvents, read_run, runs_named
from tests.effort import examples
from tests.strategies import histories, stamped

RUN = ("started", "started", "context", "retrieved", "read", "read", "lm", "step", "finished")
logs = histories(chapters=(*RUN, "judged", "judged", "set", "learned"), min_size=5, max_size=30).map(stamped)
law = settings(max_examples=examples(60), deadline=None)


def runs_of(log: list[Event]) -> dict[str, RunEvents]:
    """The runs of a log that is read once."""
    events = defaultdict[str, list[Event]](list)
    for event in log:
        for run in runs_named(event):
            events[run].append(event)
    return {run: RunEvents(run, tuple(own)) for run, own in events.items()}


@law
@given(logs)
def test_a_run_is_to_the_reader_what_it_is_to_the_fold(log: list[Event]) -> None:
    """Its first start, its latest end, its totals, the items that it was given first where and how."""
    state, runs = fold(log), runs_of(log)
    for run, known in state.runs.items():
        found = runs[run]
        assert found.started is not None and found.started.seq == known.started_seq
        assert (None if found.end is None else found.end.seq) == known.finished_seq
        assert {name: getattr(known, name) for name in found.totals.__struct_fields__} == {
            name: getattr(found.totals, name) for name in found.totals.__struct_fields__
        }
        assert found.iterations == known.iterations
    for run, found in runs.items():
        uses = {item: uses[run] for item, uses in state.uses.items() if run in uses}
        assert {gift.item: gift.seq for gift in found.given} == uses
        assert all(getattr(state, gift.way)[gift.item][run] == gift.seq for gift in found.given)
        assert {gift.item for gift in found.given} <= set(found.shown)


@law
@given(logs, st.integers(0, 60))
def test_a_run_read_by_the_index_is_the_run_of_the_whole_log_up_to_there(log: list[Event], upto: int) -> None:
    with Bank.create("memory:") as bank:
        bank.append(log)
        stored = list(bank.log.read())
        upto = min(upto, len(stored))
        whole = runs_of(stored[:upto])
        for run in runs_of(stored):
            taken = whole.get(run, RunEvents(run)).events
            own = tuple(event for event in taken if not isinstance(event, MemoriesExtracted))
            assert read_run(bank.log, run, upto).events == own
            types = {type_of(event) for event in own[:1]}
            assert read_run(bank.log, run, upto, types=types).events == tuple(e for e in own if type_of(e) in types)


@law
@given(logs)
def test_the_judgment_that_stands_is_that_of_the_fold(log: list[Event]) -> None:
    """For the judgments of all runs together, of each run from its bank, and at each position."""
    verdicts = fold(log).verdicts
    judged = ranked(log)
    assert {(each.event.run, each.event.purpose): each.event.seq for each in judged if each.stands} == {
        key: verdict.seq for key, verdict in verdicts.items()
    }
    assert all(each.rank == verdicts[each.event.run, each.event.purpose].rank for each in judged if each.stands)
    with Bank.create("memory:") as bank:
        bank.append(log)
        stored = list(bank.log.read())
        for upto in range(len(stored) + 1):
            alone = [each for run in runs_of(stored) for each in judgments_of(bank, run, upto)]
            assert sorted(alone, key=lambda each: each.event.seq) == ranked(stored[:upto])
        with bank.at() as moment:
            for run in {event.run for event in stored if isinstance(event, RunStarted)}:
                assert [(row.seq, row.authority, row.stands) for row in moment.run(run, limit=1).judgments] == [
                    (each.event.seq, authority_name(each.rank, each.event.kind), each.stands)
                    for each in judgments_of(bank, run)
                ]


@law
@given(logs, histories(chapters=("judged",), min_size=1, max_size=1))
def test_whether_a_judgment_would_stand_is_known_before_it_is_recorded(log: list[Event], more: list[Event]) -> None:
    new = next((event for event in more if isinstance(event, RunJudged)), None)
    if new is None or new.occurred_at is not None:
        return
    with Bank.create("memory:") as bank:
        bank.append(log)
        *before, supposed = judgments_of(bank, new.run, then=new)
        assert [each.event for each in before] == [each.event for each in judgments_of(bank, new.run)]
        bank.append(new)
        recorded = judgments_of(bank, new.run)
        assert (supposed.rank, supposed.stands) == (recorded[-1].rank, recorded[-1].stands)
        stands = standing(recorded, new.purpose)
        assert supposed.stands == (stands is not None and stands.event.seq == bank.position)
