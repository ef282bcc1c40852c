"""An event-sourced reasoning bank: a log of events, and everything that is computed from it.

`import rbank_es` loads nothing but this file. The public names below are imported on first use: a command that only
appends must not wait for a search engine, a graph library or a chart.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbank_es.bank import Bank as Bank
    from rbank_es.context.assembly import build_context as build_context
    from rbank_es.errors import (
        BadInput as BadInput,
        BadPoint as BadPoint,
        BankNotFound as BankNotFound,
        DuplicateEvent as DuplicateEvent,
        LogCorruption as LogCorruption,
        PositionConflict as PositionConflict,
        RBankError as RBankError,
    )
    from rbank_es.events import (
        ArtifactMaterialised as ArtifactMaterialised,
        BankAbsorbed as BankAbsorbed,
        BankCreated as BankCreated,
        BankForked as BankForked,
        ContentErased as ContentErased,
        ContextBuilt as ContextBuilt,
        Decision as Decision,
        DecisionUndone as DecisionUndone,
        Event as Event,
        ExperimentFinished as ExperimentFinished,
        ExperimentStarted as ExperimentStarted,
        Hit as Hit,
        ItemsLinked as ItemsLinked,
        JudgmentOverruled as JudgmentOverruled,
        LayerUse as LayerUse,
        LmCalled as LmCalled,
        MemoriesConsolidated as MemoriesConsolidated,
        MemoriesExtracted as MemoriesExtracted,
        MemoriesForgotten as MemoriesForgotten,
        MemoriesRead as MemoriesRead,
        MemoriesRestored as MemoriesRestored,
        MemoriesRetracted as MemoriesRetracted,
        MemoriesRetrieved as MemoriesRetrieved,
        MemoryProposed as MemoryProposed,
        NoteLogged as NoteLogged,
        OntologyRegistered as OntologyRegistered,
        PolicyChoice as PolicyChoice,
        PolicySet as PolicySet,
        Ref as Ref,
        RunFinished as RunFinished,
        RunJudged as RunJudged,
        RunStarted as RunStarted,
        StepTaken as StepTaken,
        ToolCalled as ToolCalled,
    )
    from rbank_es.events.items import Item as Item
    from rbank_es.law import State as State, evolve as evolve, fold as fold
    from rbank_es.ontology.loader import load_ontology as load_ontology
    from rbank_es.sparql.data_source import open_source as open_source
    from rbank_es.tools.shared.handle_store import Store as Store
    from rbank_es.tools.shared.toolbox import build_tools as build_tools

__version__ = "0.1.0"


_PUBLIC = {
    "rbank_es.bank": "Bank",
    "rbank_es.context.assembly": "build_context",
    "rbank_es.errors": "BadInput BadPoint BankNotFound DuplicateEvent LogCorruption PositionConflict RBankError",
    "rbank_es.events": (
        "ArtifactMaterialised BankAbsorbed BankCreated BankForked ContentErased ContextBuilt Decision "
        "DecisionUndone Event ExperimentFinished ExperimentStarted Hit ItemsLinked JudgmentOverruled LayerUse "
        "LmCalled MemoriesConsolidated MemoriesExtracted MemoriesForgotten MemoriesRead MemoriesRestored "
        "MemoriesRetracted MemoriesRetrieved MemoryProposed NoteLogged OntologyRegistered PolicyChoice PolicySet "
        "Ref RunFinished RunJudged RunStarted StepTaken ToolCalled"
    ),
    "rbank_es.events.items": "Item",
    "rbank_es.law": "State evolve fold",
    "rbank_es.ontology.loader": "load_ontology",
    "rbank_es.sparql.data_source": "open_source",
    "rbank_es.tools.shared.handle_store": "Store",
    "rbank_es.tools.shared.toolbox": "build_tools",
}
"""The public names of each module, with blanks between them."""

_HOMES = {name: module for module, names in _PUBLIC.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first used."""
    if name == "__all__":
        return [*sorted(_HOMES), "__version__"]
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(globals().keys() | _HOMES.keys())
