"""The JSON Schema of questions and answers, each field with its unit and meaning.

Those of an answer are in the glossary; a field that one question alone has may say them itself, in this form:
`Annotated[int, Meta(description="number: runs of the model")]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rbank_es.answers.shared.glossary_entries import GlossaryEntry, entry_of
from rbank_es.answers.shared.question_form import question_kind


class AnswerField(NamedTuple):
    """A field of an answer, or of a struct in it: the struct's name, its own, its JSON Schema, its unit and meaning."""

    struct: str
    name: str
    form: dict[str, Any]
    entry: GlossaryEntry | None


def answer_schema(name: str) -> dict[str, Any]:
    """Return the version, the parameters and the answer of a question as JSON Schema. Raises `BadInput`."""
    kind = question_kind(name)
    (parameters, answer), definitions = msgspec.json.schema_components((kind.question, kind.answer))
    for field in _fields(name, definitions):
        if field.entry is not None:
            field.form.setdefault("description", f"{field.entry.unit}: {field.entry.meaning}")
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
    return _fields(name, definitions)


def _fields(question: str, definitions: dict[str, dict[str, Any]]) -> Iterator[AnswerField]:
    for struct, each in definitions.items():
        for field, form in each.get("properties", {}).items():
            unit, said, meaning = form.get("description", "").partition(": ")
            own = GlossaryEntry(f"{struct}.{field}", unit, meaning) if said else None
            yield AnswerField(struct, field, form, own or entry_of(field, struct, question))
