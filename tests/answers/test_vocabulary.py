"""One vocabulary: every field has one name, one type and one meaning, in every answer and every view."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from docs import make_words
from rbank_es import Bank
from rbank_es.answers import QUESTIONS
from rbank_es.answers.shared.answer_schema import answer_fields
from rbank_es.answers.shared.glossary import COLUMNS
from rbank_es.answers.shared.glossary_units import BOOLEAN, LIST, OBJECT, POSITION, TEXT_LIST, TIME
from tests.answers.asked import answers_of
from tests.answers.make_golden import complaint
from tests.attacks.hostile_text import TEXTS, hostile_bank
from tests.cli_runner import SAMPLE

OF_AN_EVENT = ("facts",)
"""Fields whose objects have the names of event types, which `rbank-es schema TYPE` describes."""

INTERNAL = {"crc", "dur", "more", "v", "salt", "text_ref", "bank_place", "from_seq", "to_seq"}
OLD_NAMES = {
    "at": "`position`, or `*_at` for a time",
    "memory_items_injected": "`items_injected`",
    "started": "`started_seq`",
    "time": "`started_at`",
    "began": "`started_at`",
    "imported": "`imported_at`",
    "ended": "`finished_at`, `ended_seq`",
    "tools": "`tool_calls`, or `leakage_by_tool`",
    "finished": "`finished_at`",
    "learnt": "`learned`",
    "born": "`born_seq`",
    "verdicts": "`judgments`",
    "question": "`task`",
    "seconds": "`duration_s`",
    "scored": "`score`",
    "matching": "`total`",
    "description": "`desc`",
    "usage": "`uses`",
}
"""Names that a fact had beside its own: no answer has them."""


def names_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every name in a JSON value with its value, at every depth, those of events' facts aside."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name, inner
        if name not in OF_AN_EVENT:
            yield from names_in(inner)
    for inner in value if isinstance(value, list) else ():
        yield from names_in(inner)


@pytest.fixture(scope="module")
def places() -> list[make_words.Place]:
    return list(make_words.places())


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, Any]]]:
    """The JSON of every answer, by its question, of the sample bank and of one full of hostile texts."""
    with Bank.open(SAMPLE) as sample:
        found = [(name, json.loads(answer.json())) for name, _, answer in answers_of(sample)]
    with hostile_bank(tmp_path_factory.mktemp("hostile") / "bank", " ".join(TEXTS.values())) as hostile:
        found += [(name, json.loads(answer.json())) for name, _, answer in answers_of(hostile)]
    return found


def test_every_field_of_every_answer_and_every_column_of_every_view_has_a_meaning(
    places: list[make_words.Place],
) -> None:
    missing = {(place.question or place.view, place.name) for place in places if place.entry is None}
    assert not missing, "say unit and meaning of each in rbank_es/answers/shared/glossary.py, or where it is declared"


def test_every_meaning_is_of_a_field_that_is_there(places: list[make_words.Place]) -> None:
    assert not COLUMNS.keys() - {place.entry.key for place in places if place.entry}


def test_the_document_of_words_is_as_the_code_is() -> None:
    assert make_words.DOCUMENT.read_text() == make_words.document(), "run python docs/make_words.py"


@pytest.mark.parametrize("name", QUESTIONS.names())
def test_names_and_types_change_only_with_the_version_of_the_question(name: str) -> None:
    assert complaint(name) is None


def test_no_answer_has_a_name_that_is_internal_or_that_was_given_up(answered: list[tuple[str, Any]]) -> None:
    named = {(question, field.name) for question in QUESTIONS.names() for field in answer_fields(question)}
    named |= {(question, name) for question, facts in answered for name, _ in names_in(facts)}
    assert not {
        (question, name): OLD_NAMES.get(name) for question, name in named if name in OLD_NAMES.keys() | INTERNAL
    }


@pytest.mark.parametrize("question", QUESTIONS.names())
def test_the_unit_and_the_meaning_of_a_field_fit_its_type_and_name(question: str) -> None:
    for field in answer_fields(question):
        assert field.entry is not None
        unit, meaning, types = field.entry.unit, field.entry.meaning, json.dumps(field.form)
        assert '"null"' not in types or "null" in meaning, (question, field.name, "say what null means")
        assert (unit == BOOLEAN) == ('"boolean"' in types), (question, field.name)
        assert (unit == TIME) == bool(re.search("(^|_)at$", field.name)), (question, field.name)
        assert (unit == POSITION) == bool(re.search("(^|_)(seq|position)$", field.name)), (question, field.name)
        is_list, is_object = '"array"' in types, '"$ref"' in types or '"object"' in types
        assert (unit in (LIST, TEXT_LIST)) == is_list, (question, field.name)
        assert unit != OBJECT or (is_object and not is_list), (question, field.name)
        assert unit != POSITION or '"integer"' in types, (question, field.name)
