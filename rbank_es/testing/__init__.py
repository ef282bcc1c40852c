"""The contract suite: what a log engine promises, as tests that any engine can run.

An engine's author writes a class of tests with four methods, and pytest does the rest:

    class TestMyLog(EventLogContract):
        def make_log(self, clock=None): ...        # a new, empty log; `clock` returns UTC microseconds
        def reopen(self, log, clock=None): ...     # another handle to the same log, as another process would open it
        def stored_bytes(self, log): ...           # everything that the engine keeps of the log, indexes included
        def replace_last_line(self, log, line): ...  # put `line` where the last event's line is, checksummed anew

A fixture of yours (autouse, so that the methods find a place for files or a schema) should close what was opened.
The suite imports neither pytest nor hypothesis. Its tests are named after what is promised; each makes its own log.
It knows nothing of files, crashes and power cuts: what survives those is for tests of the engine itself.
"""

from rbank_es.testing.append_contract import AppendingContract
from rbank_es.testing.concurrency_contract import RetryingContract, TogetherContract
from rbank_es.testing.contract_base import SECRET, Clock, at_once, event_id, extraction, forms_of, note, raises, run
from rbank_es.testing.erasure_contract import ErasingContract
from rbank_es.testing.read_contract import ProvingContract, ReadingContract

__all__ = [
    "SECRET",
    "Clock",
    "EventLogContract",
    "at_once",
    "event_id",
    "extraction",
    "forms_of",
    "note",
    "raises",
    "run",
]


class EventLogContract(
    AppendingContract, RetryingContract, TogetherContract, ReadingContract, ProvingContract, ErasingContract
):
    """Everything that `EventLog` promises. Subclass it, and provide the four methods that this module's head shows."""
