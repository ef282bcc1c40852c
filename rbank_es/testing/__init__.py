"""The contract suite: the promises of a log engine, as tests that any engine can run.

An engine's author writes a class of tests with the engine and three methods, and pytest does the rest:

    class TestMyLog(EventLogContract):
        engine = ENGINE                            # as it is registered in `LOG_ENGINES`
        def free_place(self): ...                  # a locator for a new log, another one each time
        def stored_bytes(self, log): ...           # everything that is kept of the log, indexes included
        def replace_last_line(self, log, line): ...  # store `line` as the line of the last event, with a new checksum

An autouse fixture of your own gives the methods a place for files or a schema, and calls `close_logs` in the end.
The suite imports neither pytest nor hypothesis. Each test is named after a promise, and makes its own log.
Files, crashes and power cuts are not covered: test these with the engine itself.
"""

from rbank_es.log.groups import Clock as Clock
from rbank_es.testing.append_contract import AppendingContract, RetryingContract, TogetherContract
from rbank_es.testing.contract_base import (
    SECRET as SECRET,
    at_once as at_once,
    event_id as event_id,
    extraction as extraction,
    forms_of as forms_of,
    note as note,
    raises as raises,
    run as run,
)
from rbank_es.testing.copy_contract import CopyingContract
from rbank_es.testing.engine_contract import MakingContract, PlacingContract
from rbank_es.testing.erasure_contract import ErasingContract
from rbank_es.testing.fork_contract import ForkingContract
from rbank_es.testing.read_contract import ProvingContract, ReadingContract, SharingContract


class EventLogContract(
    AppendingContract,
    RetryingContract,
    TogetherContract,
    ReadingContract,
    ProvingContract,
    SharingContract,
    ErasingContract,
    ForkingContract,
    CopyingContract,
    MakingContract,
    PlacingContract,
):
    """All promises of `EventLog` and `LogEngine`. Subclass it, and provide what this module's docstring shows."""
