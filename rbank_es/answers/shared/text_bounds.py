"""The bound of texts: one rule for every answer, by the unit that the vocabulary gives each field."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.answers.shared.question_form import BankAnswer
from rbank_es.system.text_cuts import cut_words

A = TypeVar("A", bound=BankAnswer)
Texts = frozenset[tuple[str, str]]


def least(*bounds: int | None) -> int | None:
    """Return the least of some bounds; None, which is no bound, if there is none."""
    return min((each for each in bounds if each is not None), default=None)


def bounded(found: A, name: str, chars: int | None, whole: dict[str, int | None]) -> A:
    """Return the answer to a question with texts of at most so many characters; `whole` has those of other fields.

    Names, ids and commands are no texts, and stay whole.
    """
    bounds = dict.fromkeys(found.__struct_fields__, chars) | whole
    if all(each is None for each in bounds.values()):
        return found
    cut: A = _cut(found, _texts(name, type(found)), bounds)
    return cut


@cache
def _texts(name: str, answer: type[BankAnswer]) -> Texts:
    """Return the fields of an answer that are texts, each with the struct that has it."""
    from rbank_es.answers.shared.answer_schema import answer_fields
    from rbank_es.answers.shared.glossary_units import TEXT, TEXT_LIST

    units = {(each.struct, each.name): each.entry and each.entry.unit for each in answer_fields(name)}
    return frozenset(field for field, unit in units.items() if unit in (TEXT, TEXT_LIST))


def _cut(value: Any, texts: Texts, bounds: dict[str, int | None]) -> Any:
    changed = {}
    for name, chars in bounds.items():
        each = getattr(value, name)
        cut = _bounded(each, texts, chars, is_text=(type(value).__name__, name) in texts)
        if cut is not each:
            changed[name] = cut
    return replace(value, **changed) if changed else value


def _bounded(value: Any, texts: Texts, chars: int | None, *, is_text: bool) -> Any:
    if isinstance(value, Struct):
        return _cut(value, texts, dict.fromkeys(value.__struct_fields__, chars))
    if isinstance(value, tuple) and value:
        return tuple(_bounded(each, texts, chars, is_text=is_text) for each in value)
    return cut_words(value, chars) if is_text and isinstance(value, str) and chars is not None else value
