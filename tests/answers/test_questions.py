"""Questions to a bank: the same answer, and the same sentence for what can't be asked, on every face."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec
import pytest

from rbank_es import Bank
from rbank_es.answers import QUESTIONS, Bounds, Moment, Page, question_kind
from rbank_es.errors import BadInput, NotInBank
from tests.answers.asked import fillings, parameters, served
from tests.cli_runner import SAMPLE, fails

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such run": ({"": "run", "run": "nobody"}, "no run 'nobody' at position 609"),
    "a run without a name": ({"": "run", "run": ""}, "Expected `str` of length >= 1 - at `run`"),
    "behind no position": ({"": "run", "run": "lights", "after": -1}, "Expected `int` >= 0 - at `after`"),
    "no such event": ({"": "event", "event": "610"}, "no event '610' at position 609"),
    "no such type": (
        {"": "events", "type": "run_start"},
        "unknown event type 'run_start'; did you mean 'run_started'?",
    ),
    "no text of that path": ({"": "text", "event": "5", "path": "nothing"}, "no text of the event at 5: 'nothing' at"),
    "no block": ({"": "text", "event": "5", "path": "task", "chars": 0}, "Expected `int` >= 1 - at `chars`"),
    "unknown parameter": ({"limt": 3}, "runs has no parameter 'limt'; did you mean 'limit'?"),
    "unknown field to filter by": ({"where": "verdct=success"}, "can't filter by 'verdct'; did you mean 'verdict'?"),
    "unknown field to sort by": ({"sort": "-costs"}, "can't sort by 'costs'; did you mean 'cost_usd'?"),
    "no condition": ({"where": "failure"}, "'failure' is no condition: write FIELD=VALUE"),
    "a word that is none": ({"where": "verdict=good"}, "verdict is one of success, failure, undecided, not 'good'"),
    "a number that is none": ({"where": "steps>many"}, "steps is a number, not 'many'"),
    "neither yes nor no": ({"where": "scripted=maybe"}, "scripted is yes or no, not 'maybe'"),
    "a time that is none": ({"where": "started_at>=soon"}, "'soon' is not an ISO time"),
    "no row": ({"limit": 0}, "Expected `int` >= 1 - at `limit`"),
    "an item field that is none": ({"": "items", "where": "born=3"}, "'born'; did you mean 'born_seq'?"),
    "an item state that is none": ({"": "items", "where": "state=dead"}, "state is one of active, pending, superseded"),
    "a list that is compared": ({"": "items", "where": "domains=lights"}, "write domains~lights for those that have"),
    "too many hits": (
        {"": "search", "query": "labels", "k": 101},
        "can't return 101 hits: give a number from 1",
    ),
    "no polarity": ({"": "search", "query": "labels", "polarity": "maybe"}, "'maybe' is no polarity"),
    "no such node": ({"": "lineage", "kind": "judgment", "id": "none"}, "no judgment 'none' at position 609"),
    "no such item to follow": ({"": "lineage", "kind": "item", "id": "nothing"}, "no item 'nothing' at position 609"),
    "an event without lineage": ({"": "lineage", "kind": "event", "id": "1"}, "no lineage leads from bank_created"),
    "no way to go": (
        {"": "lineage", "kind": "run", "id": "lights-02", "direction": "up"},
        "'up'; it is one of: 'causes', 'effects' - at `direction`",
    ),
    "no JSON": (
        {"": "whatif", "policies": "dedup"},
        "policies is written as JSON, not as 'dedup'",
    ),
    "no verdict to suppose": (
        {"": "whatif", "verdicts": '{"lights-02": "good"}'},
        "'good'; it is one of: 'failure', 'success', 'undecided'",
    ),
    "a list that is none": ({"": "whatif", "without": "7"}, "Expected `array`, got `int` - at `without`"),
    "nothing to leave out": ({"": "whatif", "without": '["nobody"]'}, "nobody"),
    "nothing to search for": ({"": "search"}, "missing required field `query`"),
    "behind no row": ({"after": "nobody"}, "there is no run 'nobody' at position"),
    "behind an empty key": ({"after": ""}, "there is no run '' at position"),
    "an empty number": ({"limit": ""}, "Expected `int`, got `str` - at `limit`"),
    "runs that were given no item": ({"item": "nobody"}, "no item 'nobody' at position 609"),
    "events of no run": ({"": "events", "run": "nobody"}, "no run 'nobody' at position 609"),
    "no event": ({"": "event", "event": "nobody"}, "no event 'nobody' at position 609"),
    "no question": ({"": "nosuch"}, "there is no question 'nosuch'; there are: about,"),
    "too many conditions": ({"where": ["run=a"] * 51}, "Expected `array` of length <= 50 - at `where`"),
}


OF_PYTHON = ("events", "text")
"""What a bank has under the name of a question that is none: its events and its texts, as Python works with them."""


@pytest.fixture
def bank() -> Any:
    with Bank.open(SAMPLE) as opened:
        yield opened


@pytest.mark.parametrize("case", REFUSED)
def test_what_cant_be_asked_is_refused_with_one_sentence_on_every_face(bank: Bank, case: str) -> None:
    asked, sentence = REFUSED[case]
    given = {name: value for name, value in asked.items() if name}
    question = asked.get("", "runs")
    with pytest.raises(BadInput) as refused:
        bank.ask(question, **given)
    assert sentence in str(refused.value)
    assert "none yet" not in str(refused.value)
    words = [
        f"{name}={each}" for name, value in given.items() for each in (value if isinstance(value, list) else [value])
    ]
    assert str(refused.value) in fails("ask", str(SAMPLE), question, *words, cwd=SAMPLE.parent)
    status = 404 if isinstance(refused.value, NotInBank) else 400
    assert served(bank, question, given) == (status, {"error": str(refused.value)})


@pytest.mark.parametrize("number", [10**18, 2**63, 10**30])
def test_rows_are_compared_with_numbers_of_any_size(bank: Bank, number: int) -> None:
    everything = bank.runs().total
    found = {test: bank.runs(where=f"started_seq{test}{number}").total for test in ("=", "!=", "<", "<=", ">", ">=")}
    assert found == {"=": 0, "!=": everything, "<": everything, "<=": everything, ">": 0, ">=": 0}
    assert bank.runs(where=f"started_seq>-{number}").total == everything
    assert bank.runs(where=f"cost_usd<{number}").total == bank.runs(where="cost_usd!=none").total


def test_iterating_a_page_goes_on_to_the_next_as_of_the_same_position(bank: Bank) -> None:
    page = bank.runs(limit=4, sort="cost_usd")
    names = [row.run for row in page]
    assert len(page.rows) == 4 and len(names) == page.total == len(set(names))
    assert (
        names == [row.run for row in bank.runs(limit=1000, sort="cost_usd").rows] == [r.run for r in page.whole().rows]
    )


def test_a_page_that_was_read_from_json_says_that_it_cant_go_on(bank: Bank) -> None:
    page = msgspec.json.decode(bank.runs(limit=2).json(), type=question_kind("runs").answer)
    assert isinstance(page, Page) and len(page.rows) == 2
    with pytest.raises(BadInput, match="ask the bank for the rows behind"):
        list(page)


@pytest.mark.parametrize("name", QUESTIONS.names())
def test_every_question_is_a_method_of_a_bank_and_of_a_moment(bank: Bank, name: str) -> None:
    assert callable(getattr(bank, name)) and callable(getattr(bank.at(5), name))
    for given in parameters(name, fillings(bank))[:1]:
        wanted = bank.ask(name, **given)
        given = {each: json.loads(value) if str(value).startswith("[") else value for each, value in given.items()}
        for asked in (bank, bank.at()):
            if asked is not bank or name not in OF_PYTHON:
                assert getattr(asked, name)(**given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        {"verdicts": {"lights-02": "good"}}, {"policies": {"dedup": 1}}, {"policies": "x"}, {"without": "nobody"},
        {"since": 10, "until": 5}, {"until": 9999}, {"chars": 0}, {"since": "nosuch"},
    ],
)  # fmt: skip
def test_what_cant_be_supposed_is_refused_with_one_sentence_by_each_method(bank: Bank, given: dict[str, Any]) -> None:
    as_named = {name: [each] if name == "without" else each for name, each in given.items()}
    said = []
    for ask in (bank.whatif, bank.at().whatif, partial(bank.ask, "whatif")):
        with pytest.raises(BadInput) as refused:
            ask(**(as_named if isinstance(ask, partial) else given))
        said.append(str(refused.value))
    assert len(set(said)) == 1


def test_a_text_of_an_event_is_read_in_blocks(bank: Bank) -> None:
    event = next(each for each in bank.run("lights-02", chars=50).events or () if each.type == "context_built")
    cut = event.texts[0]
    assert cut.text is not None and len(cut.text) == cut.next_offset == 50
    read, offset = cut.text, cut.next_offset
    while offset is not None:
        block = bank.ask("text", event=str(event.seq), path=cut.path, offset=offset, chars=100).block
        read, offset = read + block.text, block.next_offset
    assert len(read) == cut.chars and read == bank.event(event.seq).event.texts[0].text


def test_a_face_without_prompts_gives_of_them_their_length_alone(bank: Bank) -> None:
    moment = Moment(bank, bank.position, Bounds(prompts=False))
    prompts = [
        text for event in moment.run("lights-02", limit=1000).events or () for text in event.texts if text.author
    ]
    assert prompts and all(text.text is None and text.chars and not text.erased for text in prompts)
    context = next(each for each in moment.events(type="context_built"))
    with pytest.raises(NotInBank, match="prompts are left out here"):
        moment.ask("text", event=str(context.seq), path="texts.0")
