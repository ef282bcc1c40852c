"""The context of a run: base instructions, then the layers that are on, each packed within its own budget.

    base  how to work                                 always there
    L0    sense card       what the ontology is about
    L1    constraints      what holds, and what to avoid; curated and derived
    L2    procedures       what earlier runs taught; chosen by the bank's retrieval policy
    L3    guide            the summary of a longer text

Only this module decides the text that an agent gets. It calls no model and writes nothing. The same input gives the
same bytes, and a layer's bytes don't depend on the other layers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rbank_es.context.companion_files import CompanionFiles, companions_of
from rbank_es.context.layer_sections import (
    LAYER_TABLE,
    LAYERS,
    ContextRequest,
    Preset,
    Subject,
    budgets_of,
    check_layers,
)
from rbank_es.context.layer_text import SEPARATOR, LayerText
from rbank_es.events import ContextBuilt, LayerUse, MemoriesRetrieved
from rbank_es.events.notebook_repr import Shown, block_html
from rbank_es.events.run_events import Mode
from rbank_es.ontology.loader import Ontology
from rbank_es.ontology.schema_model import Schema
from rbank_es.policies.packed_text import Packed
from rbank_es.sparql.data_source import Source, SourceLike, open_source

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.context.layer_sections import CuratedLine


class Context(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """The text that an agent gets before its first step, and the events that record it."""

    mode: Mode
    layers: tuple[Packed, ...]
    """The base instructions, then every layer that is on, in order; one with nothing to say has an empty text."""
    retrievals: tuple[MemoriesRetrieved, ...] = ()
    """The searches by which items were chosen: append them before the event of the context itself."""

    @property
    def text(self) -> str:
        """The part of the prompt."""
        return SEPARATOR.join(layer.text for layer in self.layers if layer.text)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return block_html(self.text)

    @property
    def items(self) -> tuple[str, ...]:
        """Ids of the memory items in the text."""
        return tuple(dict.fromkeys(item for layer in self.layers for item in layer.items))

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Ids of the events of the bank's artifacts that the text was made of."""
        return tuple(dict.fromkeys(artifact for layer in self.layers for artifact in layer.artifacts))

    def event(self, run: str) -> ContextBuilt:
        """Return the event that records the context of a run, layer by layer, with the texts."""
        uses = tuple(
            LayerUse(layer=one.layer, chars=len(one.text), budget=one.budget_chars, truncated=one.truncated)
            for one in self.layers
        )
        return ContextBuilt(
            run=run,
            chars=len(self.text),
            layers=uses,
            items=self.items,
            artifacts=self.artifacts,
            texts=tuple(one.text for one in self.layers),
        )

    def rows(self) -> list[dict[str, str | int | bool]]:
        """Return the budget table: a row per layer, then one of the whole with the sum of all budgets."""
        facts = [(one.layer, len(one.text), one.budget_chars, one.truncated, one.cut) for one in self.layers]
        # The whole counts the separators too, so its characters are not the sum of the layers'.
        budget, truncated = sum(one.budget_chars for one in self.layers), any(one.truncated for one in self.layers)
        facts.append(("all", len(self.text), budget, truncated, ""))
        return [dict(zip(("layer", "chars", "budget", "truncated", "cut"), row, strict=True)) for row in facts]


def build_context(
    task: str,
    *,
    source: SourceLike | Schema | None = None,
    bank: Bank | None = None,
    point: str | int | None = None,
    layers: Collection[str] = LAYERS,
    budgets: Mapping[str, int] | None = None,
    preset: Preset = "full",
    mode: Mode = "auto",
    run: str | None = None,
    curated: Sequence[CuratedLine] | Path | str | None = None,
    guide: Path | str | None = None,
    source_id: str | None = None,
    domain: str | None = None,
    observed: bool = False,
    task_slice: bool = False,
    memory_graph: bool = False,
    without_task: str | None = None,
    level: int | None = None,
) -> Context:
    """Return the context of one run.

    Args:
        task: the question, as the agent gets it; procedures are chosen by it.
        source: see `SourceLike`, or a schema; without one, L0 and L1 have nothing to say. Of one that is named, the
            curated constraints and the guide that come with it are used, unless others are given.
        bank: where procedures, guides and observed terms come from; only read.
        point: the bank's point in time; None means its head.
        layers: those that are on, of L0 to L3. The base instructions always are.
        budgets: characters by layer (`base`, `L0` to `L3`), where they differ from the preset's.
        preset: `full`, or `lean` with a shorter L1 and L3.
        mode: how memory reaches the agent: put in here (`auto`), by its own tools (`tools`: no L2), or both.
        run: id of the run, for the events.
        curated: curated constraints, the path of their file, or its text.
        guide: the path of a guide, or its text; without one, the latest of this ontology in the bank.
        source_id: id of the source in the bank; by default that of an open source, and the one by which the bank knows
            an ontology at that point.
        domain: the domain of the task, whose items the bank's policy may prefer for L2; the ontology's unless given.
        observed: whether L0 begins with the terms that successful runs asked with.
        task_slice: whether L0 and L1 begin with the terms that the task names.
        memory_graph: whether the agent may query the bank's own provenance, of which the base instructions tell it.
        without_task: id of a task: items drawn from runs of it are not chosen for L2.
        level: level of the task, above which the bank's policy may leave items out of L2.

    Raises `BadInput` for an unknown layer, preset or mode or a budget below 0, `BadContextFile`, `BadPoint`,
    `BadPolicy`, and as `open_source` does.
    """
    check_layers(layers)
    position = bank.resolve(point) if bank is not None else None
    beside = CompanionFiles() if isinstance(source, Source | Ontology | Schema | None) else companions_of(source)
    request = ContextRequest(
        task=task,
        subject=_subject(source, source_id, bank, position),
        bank=bank,
        position=position,
        mode=mode,
        run=run,
        curated=beside.constraints if curated is None else curated,
        guide=beside.guide if guide is None else guide,
        domain=domain,
        observed=observed,
        task_slice=task_slice,
        memory_graph=memory_graph,
        without_task=without_task,
        level=level,
    )
    packed = _packed(request, layers, budgets_of(preset, budgets or {}))
    retrievals = tuple(event for one in packed for event in one.retrievals)
    return Context(mode=mode, layers=tuple(one.packed for one in packed), retrievals=retrievals)


def _packed(request: ContextRequest, layers: Collection[str], sizes: Mapping[str, int]) -> list[LayerText]:
    """Return the base instructions and the layers that are on, each within its size."""
    # In the mode `tools`, the agent fetches its procedures itself.
    on = ["base", *(name for name in LAYERS if name in layers and not (name == "L2" and request.mode == "tools"))]
    return [
        LAYER_TABLE[name].pack(request, sizes[name]) or LayerText(Packed(layer=name, budget_chars=sizes[name]))
        for name in on
    ]


def _subject(
    source: SourceLike | Schema | None, given_id: str | None, bank: Bank | None, position: int | None
) -> Subject | None:
    if source is None:
        return None
    if isinstance(source, Schema):
        return Subject(source, source.prefixes, given_id or "")
    if isinstance(source, Ontology):
        return Subject(source.schema, source.prefixes, given_id or _known_id(source, bank, position))
    if isinstance(source, Source):
        endpoint = source.profile if source.kind == "remote" else None
        return Subject(source.schema or Schema(), source.surroundings.prefixes, given_id or source.id, endpoint)
    with closing(open_source(source)) as opened:
        return _subject(opened.ontology or opened, given_id, bank, position)


def _known_id(ontology: Ontology, bank: Bank | None, position: int | None) -> str:
    """Return the id by which a bank knows an ontology at a position; without a bank, its own."""
    from rbank_es.bank.ontology_registrations import registered_id, registrations

    return ontology.id if bank is None else registered_id(tuple(registrations(bank, position)), ontology)
