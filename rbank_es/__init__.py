"""An event-sourced reasoning bank: the log is the only truth, everything else is a fold over it.

`import rbank_es` loads nothing but this file. The public names below are found on first use, so that a
command which only appends never pays for a search engine, a graph library or a chart.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.errors import (
        BadInput,
        BadPoint,
        BankNotFound,
        DuplicateEvent,
        LogCorruption,
        PositionConflict,
        RBankError,
    )
    from rbank_es.items import Item
    from rbank_es.state import State, evolve, fold

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "BadPoint",
    "Bank",
    "BankNotFound",
    "DuplicateEvent",
    "Item",
    "LogCorruption",
    "PositionConflict",
    "RBankError",
    "State",
    "__version__",
    "evolve",
    "fold",
]

_HOMES = {
    "BadInput": "rbank_es.errors",
    "BadPoint": "rbank_es.errors",
    "Bank": "rbank_es.bank",
    "BankNotFound": "rbank_es.errors",
    "DuplicateEvent": "rbank_es.errors",
    "Item": "rbank_es.items",
    "LogCorruption": "rbank_es.errors",
    "PositionConflict": "rbank_es.errors",
    "RBankError": "rbank_es.errors",
    "State": "rbank_es.state",
    "evolve": "rbank_es.state",
    "fold": "rbank_es.state",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home the first time it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(globals().keys() | _HOMES.keys())
