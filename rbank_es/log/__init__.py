"""The log: an append-only sequence of typed events, from which everything else in a bank can be rebuilt."""

from rbank_es.log.lines import Head as Head
from rbank_es.log.protocol import (
    ANY as ANY,
    EMPTY as EMPTY,
    Ancestor as Ancestor,
    Appended as Appended,
    Cut as Cut,
    Erasing as Erasing,
    Erasure as Erasure,
    EventLog as EventLog,
    Expected as Expected,
    ForeignFile as ForeignFile,
    Lease as Lease,
    LogEngine as LogEngine,
    Place as Place,
    Relative as Relative,
    Storage as Storage,
    TornTail as TornTail,
    Verification as Verification,
)
from rbank_es.log.wrapper import LogWrapper as LogWrapper
from rbank_es.system.registry import Registry

LOG_ENGINES: Registry[LogEngine] = Registry(
    "log engine",
    {
        "file": "rbank_es.log.file.file_log:ENGINE",
        "memory": "rbank_es.log.memory.memory_log:ENGINE",
        "postgresql": "rbank_es.log.postgres.postgres_engine:ENGINE",
    },
)
"""The engines by the scheme of their URLs.

Another package adds its own with `LOG_ENGINES.add("scheme", "module:ENGINE")` in its plugin (see
`rbank_es.system.registry`).
"""

ENGINE_OF_PATHS = "file"
"""The engine of a bank that is given as a path or a bare name."""
