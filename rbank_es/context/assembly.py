"""The context: base instructions, then the layers that are switched on, each packed within its own budget.

    base  how to work                                 always there
    L0    sense card       what the ontology is about
    L1    constraints      what holds, and what to avoid; curated and derived
    L2    procedures       what earlier runs taught; chosen by the bank's retrieval policy
    L3    guide            the summary of a longer text

The one place where an experiment decides what an agent is told. Asks no model and writes nothing; the same input
gives the same bytes, and a layer's bytes don't depend on which other layers are on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.context.base_instructions import Mode, base
from rbank_es.context.constraints import CuratedLine, constraints, load_curated, parse_curated
from rbank_es.context.guide_summary import guide_summary, latest_guide
from rbank_es.context.layer import Packed, checked_budget, read_text
from rbank_es.context.ontology_card import sense_card
from rbank_es.context.procedures import procedures
from rbank_es.context.term_usage import observed_terms
from rbank_es.errors import BadInput
from rbank_es.events import ContextBuilt, LayerUse, MemoriesRetrieved
from rbank_es.ontology.schema_model import Schema

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.ontology.loader import Ontology
    from rbank_es.sparql.guard.profiles import Profile
    from rbank_es.sparql.source import Source

Layer = Literal["L0", "L1", "L2", "L3"]
Preset = Literal["full", "lean"]

LAYERS: tuple[Layer, ...] = ("L0", "L1", "L2", "L3")

BUDGETS: dict[str, dict[str, int]] = {
    "full": {
        "base": limits.CONTEXT_BASE_CHARS,
        "L0": limits.CONTEXT_L0_CHARS,
        "L1": limits.CONTEXT_L1_CHARS,
        "L2": limits.CONTEXT_L2_CHARS,
        "L3": limits.CONTEXT_L3_CHARS,
    },
    "lean": {
        "base": limits.CONTEXT_BASE_CHARS,
        "L0": limits.CONTEXT_L0_CHARS,
        "L1": limits.CONTEXT_LEAN_L1_CHARS,
        "L2": limits.CONTEXT_L2_CHARS,
        "L3": limits.CONTEXT_LEAN_L3_CHARS,
    },
}
"""Characters of each layer, by preset. With either, the whole stays under `FLAG_CONTEXT_CHARS`."""

SEPARATOR = "\n\n"
"""Between layers. The base instructions leave room for four of them within their own budget."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is told before it begins, and what must be recorded of it."""

    mode: Mode
    layers: tuple[Packed, ...]
    """The base instructions, then every layer that is on, in order; one with nothing to say has an empty text."""
    retrievals: tuple[MemoriesRetrieved, ...] = ()
    """The searches by which items were chosen: append them before the event of the context itself."""

    @property
    def text(self) -> str:
        """What goes into the prompt."""
        return SEPARATOR.join(layer.text for layer in self.layers if layer.text)

    @property
    def items(self) -> tuple[str, ...]:
        """Ids of the memory items that were put in."""
        return tuple(dict.fromkeys(item for layer in self.layers for item in layer.items))

    def event(self, run: str) -> ContextBuilt:
        """The event that says what a run was given, layer by layer, with the texts."""
        uses = tuple(
            LayerUse(layer=one.layer, chars=len(one.text), budget=one.budget_chars, truncated=one.truncated)
            for one in self.layers
        )
        return ContextBuilt(
            run=run, chars=len(self.text), layers=uses, items=self.items, texts=tuple(one.text for one in self.layers)
        )

    def rows(self) -> list[dict[str, str | int | bool]]:
        """The budget table: a row per layer, and one of the whole. Its budget is the sum of those of the layers."""
        rows: list[dict[str, str | int | bool]] = [
            {
                "layer": one.layer,
                "chars": len(one.text),
                "budget": one.budget_chars,
                "truncated": one.truncated,
                "cut": one.cut,
            }
            for one in self.layers
        ]
        whole: dict[str, str | int | bool] = {
            "layer": "all",
            "chars": len(self.text),
            "budget": sum(one.budget_chars for one in self.layers),
            "truncated": any(one.truncated for one in self.layers),
            "cut": "",
        }
        return [*rows, whole]

    def table(self) -> str:
        """The budget table as plain text."""
        lines = [f"{'layer':<6}{'chars':>7}{'budget':>8}  left out"]
        lines += [
            f"{row['layer']:<6}{row['chars']:>7,}{row['budget']:>8,}  {row['cut']}".rstrip() for row in self.rows()
        ]
        return "\n".join(lines)


class _About(NamedTuple):
    """What a context is about: a schema, how its terms are written, and where it stands."""

    schema: Schema
    prefixes: Mapping[str, str]
    id: str
    endpoint: Profile | None = None


def build_context(
    task: str,
    ontology: Source | Ontology | Schema | None = None,
    bank: Bank | None = None,
    *,
    point: str | int | None = None,
    layers: Collection[str] = LAYERS,
    budgets: Mapping[str, int] | None = None,
    preset: Preset = "full",
    mode: Mode = "auto",
    run: str | None = None,
    curated: Sequence[CuratedLine] | Path | str | None = None,
    guide: Path | str | None = None,
    ontology_id: str | None = None,
    domain: str | None = None,
    observed: bool = False,
    task_slice: bool = False,
) -> Context:
    """The context of one run.

    Args:
        task: the question, as the agent will get it; by it, procedures are chosen.
        ontology: an opened source, a loaded ontology or a schema; without one, L0 and L1 have nothing to say.
        bank: where procedures, guides and observed terms come from; only read.
        point: the bank's point in time; None means its head.
        layers: those that are on, of L0 to L3. The base instructions always are.
        budgets: characters by layer (`base`, `L0` to `L3`), where they differ from the preset's.
        preset: `full`, or `lean` with a shorter L1 and L3.
        mode: how memory reaches the agent: put in here (`auto`), by its own tools (`tools`: no L2), or both.
        run: id of the run, for the events.
        curated: curated constraints, the path of their file, or its text.
        guide: the path of a guide, or its text; without one, the latest of this ontology in the bank.
        ontology_id: id of the ontology in the bank, where it isn't that of the source.
        domain: where given, only items of this ontology id are chosen for L2.
        observed: whether L0 puts the terms first that successful runs asked with.
        task_slice: whether L0 and L1 put first what the task names.

    Raises `BadInput` for an unknown layer, preset or mode or a budget below 0, `BadContextFile`, `BadPoint`,
    `BadPolicy`.
    """
    on = _switched_on(layers, mode)
    sizes = sizes_of(preset, budgets or {})
    about = _about(ontology, ontology_id)
    position = bank.resolve(point) if bank is not None else None
    slice_of = task if task_slice else None
    packed: dict[str, Packed] = {"base": base(mode, sizes["base"])}
    retrievals: tuple[MemoriesRetrieved, ...] = ()
    if "L0" in on and about:
        first = observed_terms(bank, about.id, about.prefixes, position) if bank and observed else ()
        packed["L0"] = sense_card(about.schema, about.prefixes, sizes["L0"], slice_of, first, name=about.id)
    if "L1" in on and about:
        lines = _curated(curated)
        packed["L1"] = constraints(about.schema, about.prefixes, lines, sizes["L1"], slice_of, endpoint=about.endpoint)
    if "L2" in on and bank is not None:
        found = procedures(bank, task, point=position, run=run, domain=domain, budget_chars=sizes["L2"])
        packed["L2"], retrievals = found
    if "L3" in on:
        packed["L3"] = guide_summary(_guide(guide, bank, about, position), sizes["L3"])
    empty = (Packed(layer=name, budget_chars=sizes[name]) for name in on)
    layered = {"base": packed["base"], **{one.layer: one for one in empty}, **packed}
    return Context(mode=mode, layers=tuple(layered.values()), retrievals=retrievals)


def _switched_on(layers: Collection[str], mode: Mode) -> list[Layer]:
    """The layers that are on, in order; those that the mode leaves to tools are off."""
    unknown = sorted(set(layers) - set(LAYERS))
    if unknown:
        raise BadInput(f"no layer is called {unknown[0]!r}; there are: {', '.join(LAYERS)}")
    return [layer for layer in LAYERS if layer in layers and not (layer == "L2" and mode == "tools")]


def sizes_of(preset: str, given: Mapping[str, int]) -> dict[str, int]:
    """The budget of each layer, and of the base instructions, in characters. Raises `BadInput`."""
    if preset not in BUDGETS:
        raise BadInput(f"no preset is called {preset!r}; there are: {', '.join(BUDGETS)}")
    sizes = BUDGETS[preset]
    unknown = sorted(given.keys() - sizes.keys())
    if unknown:
        raise BadInput(f"no layer is called {unknown[0]!r}; budgets are for: {', '.join(sizes)}")
    return {**sizes, **{layer: checked_budget(size) for layer, size in given.items()}}


def _about(ontology: Source | Ontology | Schema | None, given_id: str | None) -> _About | None:
    if ontology is None:
        return None
    if isinstance(ontology, Schema):
        return _About(ontology, ontology.prefixes, given_id or "")
    schema = ontology.schema or Schema()
    from rbank_es.sparql.source import Source

    if isinstance(ontology, Source):
        endpoint = ontology.profile if ontology.kind == "remote" else None
        return _About(schema, ontology.surroundings.prefixes, given_id or ontology.id, endpoint)
    return _About(schema, ontology.prefixes, given_id or ontology.id)


def _curated(given: Sequence[CuratedLine] | Path | str | None) -> Sequence[CuratedLine]:
    if isinstance(given, Path):
        return load_curated(given)
    return parse_curated(given) if isinstance(given, str) else given or ()


def _guide(given: Path | str | None, bank: Bank | None, about: _About | None, position: int | None) -> str:
    if isinstance(given, Path):
        return read_text(given)
    if given is not None:
        return given
    if bank is None or about is None or not about.id:
        return ""
    return latest_guide(bank, about.id, position) or ""
