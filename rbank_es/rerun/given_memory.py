"""The memory that the bank gave to a recorded run, and would have given as of another position.

A run of the loop is asked about as a whole: the layers L2 and L3 of its context are built again, by the settings of the
run and the policy in force at that position. Searches of the agent, and all searches of other recordings, are repeated
with the number of hits that they asked for. First order: an agent that had been given something else would have
searched for something else.
"""

from __future__ import annotations

import msgspec

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import NotInBank
from rbank_es.events import ContextBuilt, Erased, MemoriesRetrieved, RunStarted
from rbank_es.log.run_reader import read_run

MEMORY_LAYERS = ("L2", "L3")
"""The layers of a context that are made of the bank: procedures, and the guide."""

_TYPES = frozenset({"run_started", "memories_retrieved", "context_built"})


class GivenMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that the bank gave to a run.

    `items` are the ids of the items in its context, and of the hits of other searches. `searches` are the ids that each
    search found, best first; `procedures` and `guide` the texts of the layers L2 and L3, empty where there were none.
    """

    items: tuple[str, ...] = ()
    searches: tuple[tuple[str, ...], ...] = ()
    procedures: str = ""
    guide: str = ""

    def same_as(self, other: GivenMemory) -> bool:
        """Return whether both are the same to an agent: items in their order, and the texts that quote them."""
        mine = (self.items, self.procedures, self.guide)
        return mine == (other.items, other.procedures, other.guide)


class ContextChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded settings of a loop on which the layers of memory depend; others are ignored."""

    domain: str | None = None
    guide: str | None = None
    leave_one_out: bool = False


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """The uses of memory by a run, as recorded: its beginning, its context if recorded, and its searches in order.

    `choices` are None for a run that was not made by the loop.
    """

    started: RunStarted
    context: ContextBuilt | None = None
    searches: tuple[MemoriesRetrieved, ...] = ()
    choices: ContextChoices | None = None

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.started.run

    @property
    def is_of_loop(self) -> bool:
        """Whether the loop built its context, so that it can be built again."""
        return self.choices is not None and self.context is not None and bool(self.context.texts)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of its context that the bank gave."""
        # In this mode `build_context` leaves L2 out: the agent searches by itself.
        off = ("L2",) if self.started.mode == "tools" else ()
        return tuple(name for name in MEMORY_LAYERS if name in self.started.layers and name not in off)

    @property
    def asks_memory(self) -> bool:
        """Whether anything that it was given could have come from the bank."""
        return bool(self.searches) or (self.is_of_loop and bool(self.layers))

    @property
    def repeated(self) -> tuple[MemoriesRetrieved, ...]:
        """The searches that are repeated one by one: all, or those of the agent where the context is built again."""
        return tuple(each for each in self.searches if not (self.is_of_loop and each.mode == "auto"))

    @property
    def position(self) -> int:
        """The position of the bank just before it began, of which its context was made."""
        return self.started.seq - 1

    @property
    def last_position(self) -> int:
        """The last position of the bank that it was given anything of."""
        return max([self.position, *(each.seq - 1 for each in self.repeated)])

    def layer_text(self, layer: str) -> str:
        """Return the recorded text of a layer of its context, empty if there is none."""
        context = self.context
        if context is None:
            return ""
        # Not strict, because imports may have the sizes of layers without their texts.
        texts = {use.layer: text for use, text in zip(context.layers, context.texts, strict=False)}
        found = texts.get(layer, "")
        return found if isinstance(found, str) else ""


def memory_use(bank: Bank, run: str, upto: int) -> MemoryUse:
    """Return how a run used memory, as recorded up to a position. Raises `NotInBank`."""
    events = read_run(bank.log, run, upto, types=_TYPES, resolve=True)
    started = events.started
    if started is None:
        raise NotInBank(run, upto, kind="run")
    return MemoryUse(started=started, context=events.context, searches=events.searches, choices=_choices(started))


def _choices(started: RunStarted) -> ContextChoices | None:
    if not isinstance(started.settings, str):
        return None
    try:
        return msgspec.json.decode(started.settings, type=ContextChoices)
    except (msgspec.DecodeError, RecursionError):  # a received log may nest it a million times
        return None


def given_recorded(use: MemoryUse) -> GivenMemory:
    """Return the memory that a run was given, by its own events."""
    injected = use.context.items if use.context is not None and use.is_of_loop else ()
    others = (hit.id for each in use.repeated for hit in each.hits)
    return GivenMemory(
        items=tuple(dict.fromkeys((*injected, *others))),
        searches=tuple(tuple(hit.id for hit in each.hits) for each in use.searches),
        procedures=use.layer_text("L2"),
        guide=use.layer_text("L3"),
    )


def given_at(bank: Bank, use: MemoryUse, position: int) -> GivenMemory:
    """Return the memory that the bank as of a position gives to a run; no search is later than the run's own.

    Raises `BadPolicy` if this release doesn't know the retrieval policy in force there.
    """
    built = _context_at(bank, use, min(position, use.position)) if use.is_of_loop and use.layers else GivenMemory()
    found = [_found_at(bank, each, min(position, each.seq - 1)) for each in use.repeated]
    return msgspec.structs.replace(
        built,
        items=tuple(dict.fromkeys((*built.items, *(id for ids in found for id in ids)))),
        searches=(*built.searches, *found),
    )


def _context_at(bank: Bank, use: MemoryUse, position: int) -> GivenMemory:
    from rbank_es.context.assembly import build_context
    from rbank_es.ontology.schema_model import Schema

    started, choices = use.started, use.choices or ContextChoices()
    context = build_context(
        str(started.task),
        # An empty schema: the layers of memory depend on the ontology's id alone.
        source=Schema() if started.ontology is not None else None,
        bank=bank,
        point=position,
        layers=use.layers,
        budgets={name: chars for name, chars in started.budgets.items() if name in ("base", *MEMORY_LAYERS)},
        mode=started.mode or "auto",
        guide=choices.guide,
        source_id=started.ontology,
        domain=choices.domain,
        without_task=started.task_id if choices.leave_one_out else None,
        level=started.level,
    )
    texts = {layer.layer: layer.text for layer in context.layers}
    return GivenMemory(
        items=context.items,
        searches=tuple(tuple(hit.id for hit in each.hits) for each in context.retrievals),
        procedures=texts.get("L2", ""),
        guide=texts.get("L3", ""),
    )


def _found_at(bank: Bank, event: MemoriesRetrieved, position: int) -> tuple[str, ...]:
    if event.k < 1 or not isinstance(event.query, str):
        return ()
    with bank.as_of(position) as view:
        return tuple(hit.id for hit in view.repeat(event).event.hits)


def why_unknown(bank: Bank, use: MemoryUse) -> str:
    """Return why nobody can tell what other memory would have given to a run; empty if that can be asked."""
    if use.context is not None and use.context.items and not use.searches:
        return "it was given items by a search that is not recorded"
    erased = any(isinstance(each.query, Erased) for each in use.searches)
    if erased or (use.is_of_loop and isinstance(use.started.task, Erased)):
        return "the words that it searched for were erased"
    if len(use.repeated) > limits.BISECT_SEARCHES:
        return f"it searched {len(use.repeated):,} times, and at most {limits.BISECT_SEARCHES} searches are repeated"
    for each in use.searches:
        with bank.as_of(each.seq - 1) as view:
            label = view.retrieval_policy().label
        if label != each.policy:
            return f"it was given what {each.policy} found, by settings that are not recorded: {label} was in force"
    return ""


def why_not_reproduced(bank: Bank, use: MemoryUse, given: GivenMemory, upto: int) -> str:
    """Return why the bank gives something else to a run at its own position than recorded; empty if it gives the same.

    Texts of layers are not compared: another release may quote the same items otherwise.
    """
    recorded = given_recorded(use)
    if (set(given.items), given.searches) == (set(recorded.items), recorded.searches):
        return ""
    erased = any(True for _ in bank.events(after=use.position, point=upto, types={"content_erased"}))
    if erased:
        return "texts were erased since, and without them it is not given what it was given"
    return (
        "at its own position it is not given what is recorded: an import or another release may have ranked otherwise "
        "(verify --retrievals tells)"
    )
