"""Limits of logs on a PostgreSQL server."""

# Seconds for which a writer waits for the head row of a bank before `LogBusy`: others hold it for milliseconds.
HEAD_WAIT_S = 30.0
# Seconds after which the server ends a transaction that stands still while it holds a head row: others wait meanwhile.
STANDSTILL_S = 5.0
# Seconds for which a writer tries again where connections break: a server restarts, or another takes over, within them.
RETRY_S = 30.0
RETRY_PAUSE_S = 0.2
# Seconds for which a lease is held without being renewed: so long a successor waits after a crash.
LEASE_S = 15.0
# Seconds within which a server must answer a new connection.
CONNECT_S = 5
# Seconds without a sign of the machine at the other end after which a connection is given up: libpq waits for hours.
UNHEARD_S = 15
# Connections that a process keeps to one database: as many of its threads as one machine runs at once.
POOLED_CONNECTIONS = 8
