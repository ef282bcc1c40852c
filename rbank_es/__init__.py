"""An event-sourced reasoning bank: a log of events, and everything that is computed from it.

`import rbank_es` loads nothing but this file. The public names below are imported on first use: a command that only
appends must not wait for a search engine, a graph library or a chart.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.context.assembly import build_context
    from rbank_es.errors import (
        BadInput,
        BadPoint,
        BankNotFound,
        DuplicateEvent,
        LogCorruption,
        PositionConflict,
        RBankError,
    )
    from rbank_es.events import (
        ArtifactMaterialised,
        BankAbsorbed,
        BankCreated,
        BankForked,
        ContentErased,
        ContextBuilt,
        Decision,
        DecisionUndone,
        Event,
        ExperimentFinished,
        ExperimentStarted,
        Hit,
        ItemsLinked,
        JudgmentOverruled,
        LayerUse,
        LmCalled,
        MemoriesConsolidated,
        MemoriesExtracted,
        MemoriesForgotten,
        MemoriesRead,
        MemoriesRestored,
        MemoriesRetracted,
        MemoriesRetrieved,
        MemoryProposed,
        NoteLogged,
        OntologyRegistered,
        PolicyChoice,
        PolicySet,
        Ref,
        RunFinished,
        RunJudged,
        RunStarted,
        StepTaken,
        ToolCalled,
    )
    from rbank_es.events.items import Item
    from rbank_es.law import State, evolve, fold
    from rbank_es.ontology.loader import load_ontology
    from rbank_es.sparql.source import open_source
    from rbank_es.tools.runtime.store import Store
    from rbank_es.tools.runtime.toolbox import build_tools

__version__ = "0.1.0"

__all__ = [
    "ArtifactMaterialised",
    "BadInput",
    "BadPoint",
    "Bank",
    "BankAbsorbed",
    "BankCreated",
    "BankForked",
    "BankNotFound",
    "ContentErased",
    "ContextBuilt",
    "Decision",
    "DecisionUndone",
    "DuplicateEvent",
    "Event",
    "ExperimentFinished",
    "ExperimentStarted",
    "Hit",
    "Item",
    "ItemsLinked",
    "JudgmentOverruled",
    "LayerUse",
    "LmCalled",
    "LogCorruption",
    "MemoriesConsolidated",
    "MemoriesExtracted",
    "MemoriesForgotten",
    "MemoriesRead",
    "MemoriesRestored",
    "MemoriesRetracted",
    "MemoriesRetrieved",
    "MemoryProposed",
    "NoteLogged",
    "OntologyRegistered",
    "PolicyChoice",
    "PolicySet",
    "PositionConflict",
    "RBankError",
    "Ref",
    "RunFinished",
    "RunJudged",
    "RunStarted",
    "State",
    "StepTaken",
    "Store",
    "ToolCalled",
    "build_context",
    "build_tools",
    "evolve",
    "fold",
    "load_ontology",
    "open_source",
    "__version__",
]

_HOMES = {
    "BadInput": "rbank_es.errors",
    "BadPoint": "rbank_es.errors",
    "Bank": "rbank_es.bank",
    "BankNotFound": "rbank_es.errors",
    "DuplicateEvent": "rbank_es.errors",
    "Item": "rbank_es.events.items",
    "LogCorruption": "rbank_es.errors",
    "PositionConflict": "rbank_es.errors",
    "RBankError": "rbank_es.errors",
    "State": "rbank_es.law",
    "Store": "rbank_es.tools.runtime.store",
    "build_context": "rbank_es.context.assembly",
    "build_tools": "rbank_es.tools.runtime.toolbox",
    "evolve": "rbank_es.law",
    "fold": "rbank_es.law",
    "load_ontology": "rbank_es.ontology.loader",
    "open_source": "rbank_es.sparql.source",
}
"""The modules of the public names that are not in `rbank_es.events`."""


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "rbank_es.events")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(globals().keys() | {*__all__})
