"""Laws of look-ups: what candidates state is found in the read models, and decided as if all were compared.

Banks of these tests are small, so items would soon be read into memory instead: `looked_up` forbids that.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.json import encode as encode_json
from msgspec.structs import replace

from rbank_es import Bank
from rbank_es.bank.bank_access import READ_MODELS
from rbank_es.events import Event, MemoriesExtracted, MemoriesRetracted
from rbank_es.events.items import Item
from rbank_es.law import (
    Append,
    AppendV2,
    ConsolidationPolicy,
    DedupV2,
    LiveState,
    MergeV2,
    State,
    fold,
    similar_stored_items,
)
from rbank_es.law.decisions import append_decided
from rbank_es.law.likeness import (
    LINK_MIN,
    are_near,
    content_of,
    facts_of,
    is_same,
    statement_hash,
    token_set,
)
from rbank_es.law.similar_items import Peers
from rbank_es.law.similar_stored_items import StatementIndex, known_by
from rbank_es.projections import statement_tables
from rbank_es.projections.memory_index import MEMORY_INDEX
from rbank_es.projections.read_models import ReadModels
from rbank_es.projections.statement_tables import LIKENESS_RULE
from tests.consolidations import decisions
from tests.effort import examples
from tests.fakes import FakeLog
from tests.laws.bank_lives import ALL, Life, Op, candidates, lives
from tests.laws.test_consolidation import VERSIONS, Decided, batches, plainly, recorded, told
from tests.likeness_pairs import (
    CHANGED,
    EXCHANGED,
    FOREIGN,
    FOREIGN_EXCHANGED,
    FOREIGN_SAME,
    LESSONS,
    SAME,
    Change,
    items,
    pairs,
)
from tests.strategies import histories, stamped


@contextmanager
def looked_up() -> Iterator[None]:
    """Every look-up goes to the read models, however few items there are."""
    with patch.multiple(similar_stored_items, LIKE_SHARE=0, NEAR_SHARE=0):
        yield


@contextmanager
def statements_of(log: FakeLog, upto: int) -> Iterator[StatementIndex]:
    """The statements in read models that are as far as a position."""
    with tempfile.TemporaryDirectory() as folder, looked_up(), ReadModels.open(Path(folder, "p.sqlite")) as models:
        models.catch_up(log, upto=upto)  # type: ignore[arg-type]
        found = models.stored_state(log)  # type: ignore[arg-type]
        assert found is not None and found.position == upto
        yield found.statements


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Banks as in `banks` of `test_consolidation`, event by event."""
    events = stamped(draw(histories(max_size=4, erased=True)))

    def more(new: Sequence[Event]) -> None:
        events.extend(stamped(new, start=len(events) + 1))

    for batch in draw(st.lists(batches.filter(bool), max_size=3)):
        state = fold(events)
        more(recorded(state.position, batch, decisions(Append(), state, batch)))
    more(draw(histories(max_size=3, chapters=["ended"])))
    known = sorted(fold(events).items)
    for id in draw(st.lists(st.sampled_from(known), max_size=2)) if known else []:
        more([MemoriesRetracted(ids=(id,), how="rejected")])
    return events


@pytest.mark.slow
@VERSIONS
@settings(max_examples=examples(400), deadline=None)
@given(events=logs(), history=st.lists(batches.filter(bool), min_size=1, max_size=3), data=st.data())
def test_look_ups_decide_as_the_plain_definition(
    policy: ConsolidationPolicy,
    plain: Callable[[State, Item], Decided],
    events: list[Event],
    history: list[list[Item]],
    data: st.DataObject,
) -> None:
    """Also where the read models are behind or ahead, and whatever is decided and ended afterwards."""
    now, position = data.draw(st.integers(0, len(events))), data.draw(st.integers(0, len(events)))
    with statements_of(FakeLog(events), position) as index:
        live = LiveState()
        live.advance(events[:now])
        known = known_by(index, live.state)
        for batch in history:
            decisions(policy, live.state, data.draw(batches), known)
            made_all = decisions(policy, live.state, batch, known)
            for made in made_all:
                event(made.reason)
            assert [told(made) for made in made_all] == plainly(live.state, batch, plain)
            happened = stamped(recorded(live.state.position, batch, made_all), start=live.state.position + 1)
            happened += stamped(data.draw(histories(max_size=3, chapters=["ended"])), start=happened[-1].seq + 1)
            known.update(live.state, live.advance(happened))


@settings(max_examples=examples(200), deadline=None)
@given(
    life=lives(ALL),
    stop=st.integers(0, 20),
    batch=st.lists(candidates, min_size=1, max_size=4),
    policy=st.sampled_from((AppendV2(), DedupV2(), MergeV2())),
)
def test_look_ups_decide_as_a_bank_in_memory_does(
    life: list[Op], stop: int, batch: list[Item], policy: ConsolidationPolicy
) -> None:
    """Whatever was learned, corrected, undone and erased, before the read models were written and since."""
    lived = Life()
    with lived.bank as bank, looked_up():
        for op in life[:stop]:
            lived.do(op)
        bank.project()
        before = bank.position
        for op in life[stop:]:
            lived.do(op)
        state = bank.state()
        if any(each.seq > before for each in bank.events(types={"content_erased"})):
            assert bank.read_models().stored_state(bank.log) is None
            bank.project()
        stored = bank.read_models().stored_state(bank.log)
        assert stored is not None
        index = stored.statements
        assert decisions(policy, state, batch, known_by(index, state)) == decisions(policy, state, batch)


@pytest.mark.parametrize(
    ("lessons", "changes"),
    [(LESSONS, {**SAME, **EXCHANGED, **CHANGED}), (FOREIGN, {**FOREIGN_SAME, **FOREIGN_EXCHANGED})],
    ids=["lessons", "foreign"],
)
def test_every_item_that_states_the_same_or_is_near_is_found(
    lessons: tuple[tuple[str, str], ...], changes: dict[str, Change]
) -> None:
    """In read models and in memory: invisible letters, look-alikes, accents, forms, names of parts, scripts without
    spaces, texts without tokens."""
    made = [
        *items(lessons),
        *(other for _, _, other in pairs(changes, examples(120), 7, items(lessons))),
        *(Item.make(title, content) for title in ("Foo", "…", "a_b is c") for content in ("", "!", "…", "x_y", "—")),
    ]
    with Bank.create("memory:", policies=[Append().choice]) as bank:
        heads, words = tuple(item.head for item in made), tuple(item.text for item in made)
        bank.append(MemoriesExtracted(kind="manual", heads=heads, candidates=words))
        bank.project()
        stored = bank.read_models().stored_state(bank.log)
        assert stored is not None
        index = stored.statements
        # Sought in all contents at first, then in an index: there are as many as go on with either.
        held = Peers()
        for number, item in enumerate(made):
            held.add(item, ((number, 0), item.id))
        for new in made:
            in_memory = {peer.item.id for peer in held.same(new)}
            same, near = index.same(new) or (), index.near(new) or ()
            tokens = token_set(content_of(new))
            like = index.like(tokens, LINK_MIN) or ()
            for old in made:
                others = token_set(content_of(old))
                if is_same(new, old):
                    assert old.id in same and old.id in in_memory and statement_hash(new) == statement_hash(old)
                if are_near(new, old):
                    assert old.id in near
                if LINK_MIN[1] * len(tokens & others) >= LINK_MIN[0] * len(tokens | others):
                    assert old.id in like


# ---------------------------------------------------------------- banks that are opened

COUNTING = Item.make("Count the rows first", "Count the rows of a query before you read them one by one.", "success")
REWORDED = Item.make("Count the rows first", "Count the rows of the query, before you read them one by one!", "success")


def lesson(number: int) -> Item:
    """A lesson that is near to no other."""
    return Item.make(f"Lesson {number} of many", " ".join(f"word{number}x{n}" for n in range(12)), "success")


def remember(bank: Bank, item: Item) -> tuple[str, tuple[str, ...]]:
    """The decision about an item that a person gave."""
    made = bank.remember(item.title, item.content, src=item.src)
    return made.reason, made.targets


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A bank with 200 lessons and read models."""
    with Bank.create(tmp_path / "bank") as bank:
        given = [COUNTING, *map(lesson, range(199))]
        heads, words = tuple(item.head for item in given), tuple(item.text for item in given)
        append_decided(bank.log, bank.latest, [MemoriesExtracted(kind="manual", heads=heads, candidates=words)])
        bank.project()
    return tmp_path / "bank"


def test_the_first_decisions_of_a_process_read_no_item_into_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where the same is found nor where nothing is, nor what is near to rejected words."""
    with Bank.open(place) as bank:
        bank.reject(lesson(7).id, because="wrong")
        bank.project()
    taken: list[str] = []
    add = Peers.add

    def noting(self: Peers, item: Item, order: tuple[tuple[int, int], str]) -> None:
        taken.append(item.id)
        add(self, item, order)

    monkeypatch.setattr(Peers, "add", noting)
    with Bank.open(place) as bank, looked_up():
        assert remember(bank, REWORDED) == ("same", (COUNTING.id,))
        assert remember(bank, lesson(1_000)) == ("new", ())
        near = Item.make("Lesson", f"{lesson(7).content} more", "success")
        assert remember(bank, near) == ("near-rejected", (lesson(7).id,))
    ours = {REWORDED.id, COUNTING.id, lesson(1_000).id, near.id}
    assert {id for id in taken if " " not in id} <= ours
    # By a name of their own: rejected words that a decision named, once it is made.
    assert len({id for id in taken if " " in id}) <= 1


def test_words_that_came_after_the_read_models_count(place: Path) -> None:
    """Those of new items, and more words of an old one that somebody then rejected."""
    late, words = lesson(500), lesson(501)
    again = Item.make(words.title, words.content, "success", id=lesson(9).id)
    with Bank.open(place) as bank:
        assert remember(bank, late) == ("new", ())
        given = MemoriesExtracted(kind="manual", heads=(again.head,), candidates=(again.text,))
        append_decided(bank.log, bank.latest, [given])
        bank.reject(again.id, because="wrong")
    with Bank.open(place) as bank:
        assert remember(bank, Item.make(late.title, f"The {late.content}!", "success")) == ("same", (late.id,))
        assert remember(bank, words) == ("rejected", ())
        first = lesson(9)
        assert remember(bank, Item.make(first.title, f"The {first.content}!", "success")) == ("rejected", ())


@pytest.mark.parametrize("how", ["gone", "changed", "replaced", "closed"])
def test_a_bank_whose_read_models_are_lost_between_decisions_decides_by_its_log(place: Path, how: str) -> None:
    with Bank.open(place) as bank:
        path = bank.log.derived_directory / READ_MODELS
        assert remember(bank, lesson(1_000)) == ("new", ())
        if how == "gone":
            path.unlink()
        elif how == "closed":
            bank.read_models().close()
        elif how == "replaced":
            with Bank.open(place) as other:
                other.project(rebuild=True)
        else:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("DELETE FROM statements")
                connection.execute("DELETE FROM statement_facts")
                connection.commit()
        assert remember(bank, REWORDED) == ("same", (COUNTING.id,))
        near = Item.make("Lesson", f"{lesson(7).content} more", "success")
        assert remember(bank, near) == ("near", (lesson(7).id,))


def test_read_models_by_another_version_of_the_rule_are_made_again() -> None:
    assert replace(MEMORY_INDEX, rules=("likeness-0",)).digest != MEMORY_INDEX.digest


def test_a_change_of_what_a_text_states_is_a_new_version_of_the_rule() -> None:
    """If this fails, raise the version of `LIKENESS_RULE` in `statement_tables.py`, and note the new digest here."""
    changed = pairs({**SAME, **EXCHANGED, **CHANGED}, 200, 7, items(LESSONS))
    read = [[statement_hash(item), sorted(facts_of(item))] for _, *both in changed for item in both]
    noted = {"likeness-2": "801071aeda37"}
    assert sha256(encode_json(read)).hexdigest()[:12] == noted[LIKENESS_RULE.split()[0]]


def test_nothing_is_left_by_which_an_erased_text_could_be_guessed(place: Path) -> None:
    """Neither its hash nor the places of its words, in the file or in what an open bank keeps."""
    gone = lesson(7)
    with Bank.open(place) as bank:
        assert remember(bank, lesson(1_000)) == ("new", ())
        path = bank.log.derived_directory / READ_MODELS
        before, wrote = rows_of(path), path.read_bytes()
        hashed = statement_hash(gone)
        assert hashed in before["statements"] and packed(hashed) in wrote
        bank.erase(item=gone.id, reason="asked for")
        bank.project()
        after = rows_of(path)
        assert hashed not in after["statements"]
        lost = {fact for fact in before["facts"] if fact not in after["facts"]}
        assert len(lost) == 12
        for file in (each for each in path.parent.rglob("*") if each.is_file()):
            assert packed(hashed) not in file.read_bytes()
        # As if its words had never been there: another text may have them.
        assert remember(bank, Item.make("Lesson", gone.content, "success")) == ("new", ())


def test_the_rows_of_facts_are_the_same_wherever_batches_end(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where blocks and batches are short: of texts that come one by one, and of all at once."""
    monkeypatch.setattr(statement_tables, "BLOCK_TEXTS", 8)
    monkeypatch.setattr(statement_tables, "BATCH_FACTS", 40)
    found = list[list[tuple[int, bytes]]]()
    with Bank.open(place) as bank:
        bank.project(rebuild=True)
        for number in range(20):
            remember(bank, Item.make("Pumps", f"Pump {number} stops before valve {number} opens", "success"))
            bank.project()
        for _ in range(2):
            with closing(sqlite3.connect(bank.log.derived_directory / READ_MODELS)) as connection:
                found.append(connection.execute("SELECT place, texts FROM statement_facts").fetchall())
            bank.project(rebuild=True)
        assert found[0] == found[1] and max(len(texts) for _, texts in found[0]) == 16
        assert remember(bank, Item.make("Lesson", f"{lesson(7).content} more", "success")) == ("near", (lesson(7).id,))


def packed(number: int) -> bytes:
    """A number as SQLite writes it."""
    return number.to_bytes(8, "big", signed=True)


def rows_of(path: Path) -> dict[str, set[int]]:
    """The hashes and the facts in a file of read models."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            "statements": {number for (number,) in connection.execute("SELECT statement FROM statements")},
            "facts": {place >> 32 for (place,) in connection.execute("SELECT place FROM statement_facts")},
        }
