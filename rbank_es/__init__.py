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
    from rbank_es.ontology.loader import load_ontology
    from rbank_es.sparql.source import open_source
    from rbank_es.state import State, evolve, fold
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
    "ArtifactMaterialised": "rbank_es.events",
    "BadInput": "rbank_es.errors",
    "BadPoint": "rbank_es.errors",
    "Bank": "rbank_es.bank",
    "BankAbsorbed": "rbank_es.events",
    "BankCreated": "rbank_es.events",
    "BankForked": "rbank_es.events",
    "BankNotFound": "rbank_es.errors",
    "ContentErased": "rbank_es.events",
    "ContextBuilt": "rbank_es.events",
    "Decision": "rbank_es.events",
    "DecisionUndone": "rbank_es.events",
    "DuplicateEvent": "rbank_es.errors",
    "Event": "rbank_es.events",
    "ExperimentFinished": "rbank_es.events",
    "ExperimentStarted": "rbank_es.events",
    "Hit": "rbank_es.events",
    "Item": "rbank_es.events.items",
    "ItemsLinked": "rbank_es.events",
    "JudgmentOverruled": "rbank_es.events",
    "LayerUse": "rbank_es.events",
    "LmCalled": "rbank_es.events",
    "LogCorruption": "rbank_es.errors",
    "MemoriesConsolidated": "rbank_es.events",
    "MemoriesExtracted": "rbank_es.events",
    "MemoriesForgotten": "rbank_es.events",
    "MemoriesRead": "rbank_es.events",
    "MemoriesRestored": "rbank_es.events",
    "MemoriesRetracted": "rbank_es.events",
    "MemoriesRetrieved": "rbank_es.events",
    "MemoryProposed": "rbank_es.events",
    "NoteLogged": "rbank_es.events",
    "OntologyRegistered": "rbank_es.events",
    "PolicyChoice": "rbank_es.events",
    "PolicySet": "rbank_es.events",
    "PositionConflict": "rbank_es.errors",
    "RBankError": "rbank_es.errors",
    "Ref": "rbank_es.events",
    "RunFinished": "rbank_es.events",
    "RunJudged": "rbank_es.events",
    "RunStarted": "rbank_es.events",
    "State": "rbank_es.state",
    "StepTaken": "rbank_es.events",
    "Store": "rbank_es.tools.runtime.store",
    "ToolCalled": "rbank_es.events",
    "build_context": "rbank_es.context.assembly",
    "build_tools": "rbank_es.tools.runtime.toolbox",
    "evolve": "rbank_es.state",
    "fold": "rbank_es.state",
    "load_ontology": "rbank_es.ontology.loader",
    "open_source": "rbank_es.sparql.source",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(globals().keys() | _HOMES.keys())
