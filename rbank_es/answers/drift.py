"""The question `drift`: what a bank learned about an ontology that has changed since, and the commands to end it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.ontology_drift import DriftedTerm, LearnedText, drifted, is_broken, named_terms, texts_at
from rbank_es.data import LIGHTS
from rbank_es.errors import QueryFailed
from rbank_es.ontology.schema_changes import TermChange, gone_from, schema_changes
from rbank_es.ontology.written_terms import BareNames
from rbank_es.system.command_lines import whole_command
from rbank_es.system.text_cuts import cut_words

if TYPE_CHECKING:
    from rbank_es.sparql.data_source import Source

Changes = Mapping[str, tuple[TermChange, ...]]


class DriftedText(Struct, frozen=True, kw_only=True):
    """A text that names terms which changed. `broken`: one is gone or renamed, so that it can't hold as it stands.

    `command` ends an item, or writes another guide.
    """

    id: str
    kind: Literal["item", "pattern", "guide"]
    title: str
    state: str
    uses: int
    wins: int
    broken: bool
    terms: tuple[DriftedTerm, ...]
    command: str


class Drift(BankAnswer, frozen=True, kw_only=True):
    """The texts that name changed terms: broken ones first, then by uses. `prefixes` are those of both ontologies."""

    texts_total: int
    erased: int
    prefixes: dict[str, str]
    rows: tuple[DriftedText, ...]


class DriftQuestion(BankQuestion, frozen=True, kw_only=True):
    """The ontology as it is now, and perhaps as it was."""

    ont: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description=f"The new ontology: files or folders of RDF, or {LIGHTS}, the shipped one.",
        ),
    ]
    old: Annotated[
        tuple[str, ...], Meta(description="The ontology as it was; without it, only terms that don't exist are found.")
    ] = ()
    skip_unreadable: Annotated[bool, Meta(description="Whether to go on without files that can't be read.")] = False


def find_drift(reader: BankReader, question: DriftQuestion) -> Drift:
    """Return the items, query patterns and guides that name terms which the new ontology doesn't have as it had them.

    Raises `BadOntology`, `BadFiles`, `MissingExtra`; `QueryFailed` where the data can't be searched in time.
    """
    reader.require_files(*(each for each in (*question.ont, *question.old) if each != LIGHTS))
    with ExitStack() as stack:
        new = _opened(question.ont, question.skip_unreadable, stack)
        old = _opened(question.old, question.skip_unreadable, stack) if question.old else None
        texts = texts_at(reader.bank, reader.position)
        known = {**new.surroundings.prefixes, **(old.surroundings.prefixes if old is not None else {})}
        named = named_terms(texts, known, _bare_names(old, new))
        changes = _changes([iri for each in named for iri in each], new, old)
    return Drift(
        bank=reader.name,
        position=reader.position,
        texts_total=len(texts),
        erased=sum(each.erased for each in texts),
        prefixes=known,
        rows=tuple(_row(reader, text, terms) for text, terms in drifted(texts, named, changes)),
    )


def _opened(names: tuple[str, ...], skip_unreadable: bool, stack: ExitStack) -> Source:
    from rbank_es.ontology.loader import load_ontology
    from rbank_es.sparql.data_source import open_source

    source = open_source(load_ontology(names, skip_unreadable=skip_unreadable))
    # A local engine is a process of its own.
    stack.callback(source.close)
    return source


def _row(reader: BankReader, text: LearnedText, terms: tuple[DriftedTerm, ...]) -> DriftedText:
    return DriftedText(
        id=text.id,
        kind=text.kind,
        title=text.title,
        state=text.state,
        uses=text.uses,
        wins=text.wins,
        broken=is_broken(terms),
        terms=terms,
        command=_command(reader, text, terms),
    )


def _command(reader: BankReader, text: LearnedText, terms: tuple[DriftedTerm, ...]) -> str:
    if text.kind == "guide":
        return whole_command("guide", [reader.command], "--ont NEW --lm MODEL --again")
    names = ", ".join(term.written for term in terms)
    why = shlex.quote(cut_words(f"It names what the ontology changed: {names}", limits.DRIFT_REASON_CHARS))
    return whole_command("retract", [reader.command, text.id], f"--because {why}")


# ---------------------------------------------------------------- changes


def _bare_names(old: Source | None, new: Source) -> BareNames | None:
    if old is None or old.schema is None or new.schema is None:
        return None
    return BareNames.of_changes(old.schema, new.schema)


def _changes(iris: list[str], new: Source, old: Source | None) -> Changes:
    """Return the changes of the terms of both schemas, and of the named individuals that only the old data have."""
    assert new.schema is not None  # an ontology from files has one
    if old is None:
        suspected = gone_from(new.schema, iris)
        there = _in_data(suspected, new)
        return {iri: changes for iri, changes in suspected.items() if iri not in there}
    assert old.schema is not None
    changes = schema_changes(old.schema, new.schema, frozenset(iris))
    terms = {each.iri for schema in (old.schema, new.schema) for each in schema.classes}
    terms |= {each.iri for schema in (old.schema, new.schema) for each in schema.properties}
    before = _in_data([iri for iri in iris if iri not in terms], old)
    gone = before - _in_data(before, new)
    return changes | {iri: (TermChange(iri=iri, kind=None, change="gone"),) for iri in gone}


def _in_data(iris: Iterable[str], source: Source) -> frozenset[str]:
    """Return the IRIs that occur in the data of a source. Raises `QueryFailed` where these can't be queried."""
    from rbank_es.sparql.data_source import is_valid_iri, terms_in_data

    # No data hold an invalid IRI.
    asked = [iri for iri in dict.fromkeys(iris) if is_valid_iri(iri)]
    found: set[str] = set()
    for start in range(0, len(asked), limits.JUDGE_TERMS):
        there = terms_in_data(asked[start : start + limits.JUDGE_TERMS], source)
        if there is None:
            hint = "try again on a machine that is less busy, or with fewer files"
            raise QueryFailed("timeout", f"the data of {source.id} could not be searched for the terms", hint)
        found |= there
    return frozenset(found)


QUESTION = QuestionKind(
    about="The items, query patterns and guides that name what an ontology changed.",
    question=DriftQuestion,
    answer=Drift,
    find=find_drift,
    rows="rows",
)
