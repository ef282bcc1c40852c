"""The JSON Schema of questions and answers, each field with its unit and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rbank_es.answers.shared.glossary import meaning_of
from rbank_es.answers.shared.question_registry import question_kind


class AnswerField(NamedTuple):
    """A field of an answer, or of a struct in it: the struct's name, its own, its JSON Schema."""

    struct: str
    name: str
    form: dict[str, Any]


def answer_schema(name: str) -> dict[str, Any]:
    """Return the version, the parameters and the answer of a question as JSON Schema. Raises `BadInput`."""
    kind = question_kind(name)
    (parameters, answer), definitions = msgspec.json.schema_components((kind.question, kind.answer))
    for type_name, each in definitions.items():
        _describe(each, type_name, name)
    return {
        "question": name,
        "version": kind.version,
        "about": kind.about,
        "parameters": parameters,
        "answer": answer,
        "$defs": definitions,
    }


def answer_fields(name: str) -> Iterator[AnswerField]:
    """Yield each field that the answer to a question has, those of all structs in it too. Raises `BadInput`."""
    _, definitions = msgspec.json.schema_components((question_kind(name).answer,))
    for struct, each in definitions.items():
        for field, form in each.get("properties", {}).items():
            yield AnswerField(struct, field, form)


def _describe(schema: dict[str, Any], *tables: str) -> None:
    for field, form in schema.get("properties", {}).items():
        if "description" not in form and (meaning := meaning_of(field, *tables)) is not None:
            form["description"] = meaning
