"""Drift: what a bank learned about an ontology that has changed since. Items, query patterns and guides that name terms
which are gone, renamed, or have another domain or range; and what each was worth.

Pure but for `texts_at`, which reads the bank. Nothing is retracted here: a lesson may be right in spite of a term.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from rbank_es.events import ArtifactMaterialised, ContextBuilt
from rbank_es.law import State, usage
from rbank_es.ontology.schema_changes import TermChange
from rbank_es.ontology.written_terms import BareNames, written_terms

if TYPE_CHECKING:
    from rbank_es.bank.bank_access import OpenBank


class LearnedText(Struct, frozen=True, kw_only=True):
    """A text that agents may be given: an item, a query pattern (an item that holds a query) or a guide.

    `uses` counts the runs that were given it, `wins` those of them whose standing verdict is success. `erased`: nobody
    can tell what it names.
    """

    kind: Literal["item", "pattern", "guide"]
    id: str
    title: str
    text: str
    state: str
    uses: int = 0
    wins: int = 0
    erased: bool = False


class DriftedTerm(Struct, frozen=True, kw_only=True):
    """A term as a text writes it, with what changed about it."""

    written: str
    changes: tuple[TermChange, ...]


def texts_at(bank: OpenBank, point: str | int | None = None) -> list[LearnedText]:
    """Return the active and pending items of a bank at a point, in order of birth, then the guides that are in use.

    A guide is in use until there is a later one of the same ontology. Raises `BadPoint`.
    """
    position = bank.resolve(point)
    state = bank.state(position)
    return [*_items(state), *_guides(bank, state, position)]


def _items(state: State) -> Iterable[LearnedText]:
    worth = usage(state)
    for id, entry in state.items.items():
        if entry.state in ("active", "pending"):
            item, (uses, wins) = entry.item, worth.get(id, (0, 0))
            yield LearnedText(
                kind="pattern" if _holds_query(item.content) else "item",
                id=id,
                title=item.title,
                text="\n".join((item.title, item.desc, item.content)),
                state=entry.state,
                uses=uses,
                wins=wins,
                erased=entry.erased,
            )


def _holds_query(content: str) -> bool:
    return "{" in content and any(form in content for form in ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE"))


def _guides(bank: OpenBank, state: State, position: int) -> Iterable[LearnedText]:
    latest: dict[str | None, ArtifactMaterialised] = {}
    given: defaultdict[str, set[str]] = defaultdict(set)
    for event in bank.events(point=position, types={"artifact_materialised", "context_built"}):
        if isinstance(event, ArtifactMaterialised) and event.kind == "guide":
            latest[event.ontology] = event
        elif isinstance(event, ContextBuilt):
            for artifact in event.artifacts:
                given[artifact].add(event.run)
    for guide in latest.values():
        text, runs = bank.text(guide.text), given[guide.id]
        verdicts = (state.verdicts.get((run, "learning")) for run in runs)
        yield LearnedText(
            kind="guide",
            id=guide.artifact,
            title=f"guide to {guide.ontology}" if guide.ontology else "guide",
            text=text or "",
            state="in use",
            uses=len(runs),
            wins=sum(verdict is not None and verdict.verdict == "success" for verdict in verdicts),
            erased=text is None,
        )


def named_terms(
    texts: Iterable[LearnedText], prefixes: Mapping[str, str], bare: BareNames | None = None
) -> list[dict[str, str]]:
    """Return the IRIs that each text names, each as written: in full or with a prefix, also within queries, as
    `written_terms` finds them, and those of bare names that are given."""
    return [{} if each.erased else _named(each.text, prefixes, bare) for each in texts]


def _named(text: str, prefixes: Mapping[str, str], bare: BareNames | None) -> dict[str, str]:
    found = written_terms(text, prefixes, with_queries=True)
    return found if bare is None else bare.in_text(text) | found


def drifted(
    texts: Iterable[LearnedText], named: Iterable[Mapping[str, str]], changes: Mapping[str, tuple[TermChange, ...]]
) -> list[tuple[LearnedText, tuple[DriftedTerm, ...]]]:
    """Return the texts that name terms with changes, with these: broken ones first, then by uses, then as given.

    `named` are the IRIs of each text, as `named_terms` returns them. A text is broken where a term is gone or renamed.
    """
    found = []
    for text, iris in zip(texts, named, strict=True):
        terms = tuple(
            DriftedTerm(written=written, changes=changes[iri]) for iri, written in iris.items() if iri in changes
        )
        if terms:
            found.append((text, terms))
    return sorted(found, key=lambda each: (not is_broken(each[1]), -each[0].uses))


def is_broken(terms: Iterable[DriftedTerm]) -> bool:
    """Return whether a term is gone or renamed, so that a text that names it can't hold as it stands."""
    return any(change.change in ("gone", "renamed") for term in terms for change in term.changes)
