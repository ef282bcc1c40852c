"""Events about the bank itself: its creation, policies, forks, absorptions, ontologies and erasures."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from rbank_es import limits
from rbank_es.events.event_envelope import Count, Event, Names, Salt, Settings, Text
from rbank_es.events.items import Name

PolicyKind = Literal[
    "retrieval",
    "admission",
    "judging",
    "extraction",
    "consolidation",
    "forgetting",
    "selection",
    "attribution",
    "correction",
]


class PolicyChoice(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One policy in force: named, versioned, with all its settings."""

    kind: Annotated[PolicyKind, Meta(description="What the policy decides.")]
    name: Annotated[Name, Meta(description="The policy's name, such as dedup.")]
    version: Annotated[int, Meta(ge=1, description="The policy's version.")]
    settings: Annotated[Settings, Meta(description="Every setting, by name.")] = {}


class BankCreated(Event, frozen=True, kw_only=True, tag="bank_created"):
    """The bank was made."""

    name: Annotated[Name, Meta(description="The bank's name when it was made.")]
    release: Annotated[Name | None, Meta(description="Release of rbank-es that made it.")] = None
    salt: Salt = ""
    purpose: Annotated[Text, Meta(description="What the bank is for.")] = ""


class PolicySet(Event, frozen=True, kw_only=True, tag="policy_set"):
    """The policies in force from here on, whole."""

    # Whole rather than a change: reading one event must be enough to know what is in force.
    policies: Annotated[tuple[PolicyChoice, ...], Meta(description="One per kind; a kind left out has no policy.")]
    by: Annotated[Name | None, Meta(description="Who set them.")] = None
    salt: Salt = ""
    why: Annotated[Text, Meta(description="Why they were set.")] = ""


class BankForked(Event, frozen=True, kw_only=True, tag="bank_forked"):
    """The bank began as a fork of another: what is before this event is the parent's log as well."""

    parent: Annotated[Name, Meta(description="Id of the bank it was forked from.")]
    parent_seq: Annotated[Count, Meta(description="Position of the parent at which it was forked.")]
    parent_digest: Annotated[Name, Meta(description="Head digest of the parent there, hex.")]
    fork: Annotated[Name | None, Meta(description="Id of the fork: of the bank that begins here.")] = None
    name: Annotated[Name | None, Meta(description="The fork's name when it was made.")] = None
    by: Annotated[Name | None, Meta(description="Who forked it.")] = None


class BankAbsorbed(Event, frozen=True, kw_only=True, tag="bank_absorbed"):
    """The events of another bank came in, up to a position of it; they are before this one, or in its group."""

    bank: Annotated[Name, Meta(description="Id of the other bank.")]
    lineage: Annotated[Name | None, Meta(description="Id of the bank from which it was forked at first.")] = None
    upto: Annotated[Count, Meta(description="Position of the other bank up to which it was absorbed.")]
    digest: Annotated[Name, Meta(description="Head digest of the other bank there, hex.")]
    counts: Annotated[dict[Name, Count], Meta(description="Number of events by what became of them.")] = {}
    renamed: Annotated[
        dict[Name, Name],
        Meta(max_length=limits.RENAMED_LISTED, description="Id in the other bank, by the id here, where it was taken."),
    ] = {}
    by: Annotated[Name | None, Meta(description="Who absorbed it.")] = None
    salt: Salt = ""
    source: Annotated[Text, Meta(description="Where the other bank was.")] = ""


class OntologyRegistered(Event, frozen=True, kw_only=True, tag="ontology_registered"):
    """An ontology that runs of this bank use."""

    ontology: Annotated[Name, Meta(description="Id of the ontology, as items' `domain` names it.")]
    sha256: Annotated[Name, Meta(description="SHA-256 of the file, hex.")]
    format: Annotated[Name | None, Meta(description="Serialisation: turtle, xml, nt, json-ld, trig.")] = None
    triples: Annotated[Count | None, Meta(description="Number of triples.")] = None
    namespaces: Annotated[dict[Name, Name], Meta(description="Prefix to namespace IRI.")] = {}
    whole: Annotated[
        bool | None,
        Meta(
            description="Whether it was declared to have every individual that a right query or answer may name: what "
            "it lacks exists nowhere. Unset where nobody declared it."
        ),
    ] = None
    terms: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=limits.ONTOLOGY_SKETCH,
            description="Digests of its classes and properties, the smallest ones if there are more, hex: they tell "
            "its next version from another ontology whose file has the same name.",
        ),
    ] = ()
    salt: Salt = ""
    source: Annotated[Text, Meta(description="Its file or address.")] = ""


class ErasedUnit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One text that was erased: its place and its commitment."""

    seq: Annotated[int, Meta(ge=1, description="Position of the event.")]
    path: Annotated[Name, Meta(description="Field of the event, or field and index: `candidates.1`.")]
    digest: Annotated[Name, Meta(description="Commitment to the erased bytes, hex.")]


class ContentErased(Event, frozen=True, kw_only=True, tag="content_erased"):
    """Texts were removed from every file of the bank; the only event that changes earlier lines."""

    units: Annotated[tuple[ErasedUnit, ...], Meta(description="Texts erased inside events.")]
    texts: Annotated[Names, Meta(description="Keys of the text lines that were erased.")] = ()
    by: Annotated[Name | None, Meta(description="Who asked for it.")] = None
    salt: Salt = ""
    reason: Annotated[Text, Meta(description="Why.")] = ""
