# ruff: noqa: D102  the methods without a docstring are documented in `LogEngine`
"""The `postgresql:` engine: banks in a database, for writers on several machines (extra `postgres`).

`postgresql://[USER@]HOST[:PORT]/[DATABASE/]BANK[?OPTION=VALUE&…]`: what is not said is as libpq has it. A password is
given by its ways (`PGPASSWORD`, `~/.pgpass`, a service), never in the URL.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec.structs import astuple

from rbank_es import errors
from rbank_es.limits import postgres_limits as limits
from rbank_es.log import groups, lines
from rbank_es.log.protocol import Ancestor
from rbank_es.log.rows.row_engine import RowEngine
from rbank_es.system.extras import require

if TYPE_CHECKING:
    from rbank_es.log.postgres.postgres_log import PostgresLog
    from rbank_es.log.postgres.postgres_server import Server

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")


class BankAddress(NamedTuple):
    """A bank on a server: what libpq is told, the database as people may see it, and the name of the bank."""

    parameters: tuple[tuple[str, str], ...]
    place: str
    bank: str


def address_of(locator: str) -> BankAddress:
    """Parse the URL of a bank. Raises `BadBankName`, also for one with a password."""
    try:
        url = urlsplit(locator)
        port = url.port
    except ValueError:
        raise errors.BadBankName(locator, "the host or the port can't be read") from None
    database, _, bank = unquote(url.path).strip("/").rpartition("/")
    if not _NAME.fullmatch(bank):
        raise errors.BadBankName(locator, "it must be postgresql://HOST/[DATABASE/]BANK")
    given = dict(parse_qsl(url.query))
    if url.password is not None or "password" in given:
        raise errors.BadBankName(locator, "a URL is shown and kept: give the password in PGPASSWORD or ~/.pgpass")
    named = {"host": url.hostname, "port": port and str(port), "user": url.username, "dbname": database}
    given = {name: unquote(value) for name, value in named.items() if value} | given
    unheard = str(limits.UNHEARD_S)
    defaults = {"connect_timeout": str(limits.CONNECT_S), "application_name": "rbank-es", "keepalives_idle": unheard}
    defaults |= {"keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": f"{unheard}000"}
    host = given.get("host") or os.environ.get("PGHOST") or "localhost"
    port_text = given.get("port") or os.environ.get("PGPORT") or "5432"
    database = (
        given.get("dbname") or os.environ.get("PGDATABASE") or given.get("user") or os.environ.get("PGUSER") or ""
    )
    place = f"postgresql://{host.replace('/', '%2F')}:{port_text}/{database}"
    return BankAddress(tuple(sorted((defaults | given).items())), place, bank)


class PostgresEngine(RowEngine["PostgresLog"]):
    """The engine of `postgresql:` URLs; see `LogEngine` for its promises."""

    def __init__(self) -> None:
        self.servers: dict[tuple[tuple[tuple[str, str], ...], str], Server] = {}

    def name_of(self, locator: str) -> str:
        return address_of(locator).bank

    def _server(self, address: BankAddress) -> Server:
        """Return the database of an address: one for all its banks, because each has connections."""
        require("psycopg")
        from psycopg import ProgrammingError
        from psycopg.conninfo import make_conninfo

        from rbank_es.log.postgres.postgres_server import Server

        key = (address.parameters, address.place)
        if key not in self.servers:
            try:
                conninfo = make_conninfo(**dict(address.parameters))
            except ProgrammingError as error:
                raise errors.BadBankName(f"{address.place}/{address.bank}", str(error).strip()) from None
            self.servers.setdefault(key, Server(conninfo, address.place))
        return self.servers[key]

    def open(self, locator: str, **options: Any) -> PostgresLog:
        address = address_of(locator)
        server = self._server(address)
        missing = errors.BankNotFound(f"{address.place}/{address.bank}")
        if not server.has_tables():
            raise missing
        found = server.execute("SELECT no, id, ancestors FROM rbank.bank WHERE name = $1", (address.bank,))
        if not found:
            raise missing
        [(number, bank_id, chain)] = found
        return self._log(server, address.bank, number, bank_id, [Ancestor(*each) for each in chain], options)

    def _log(
        self,
        server: Server,
        name: str,
        number: int,
        bank_id: str,
        ancestors: Sequence[Ancestor],
        options: dict[str, Any],
    ) -> PostgresLog:
        from rbank_es.log.postgres.postgres_log import PostgresLog

        clock, entropy = options.get("clock", groups.system_clock), options.get("entropy", os.urandom)
        return PostgresLog(self, server, name, number, bank_id, ancestors, clock=clock, entropy=entropy)

    def _make(
        self,
        locator: str,
        bank_id: str,
        ancestors: Sequence[Ancestor],
        fill: Callable[[PostgresLog], object],
        **options: Any,
    ) -> PostgresLog:
        """Make a bank under a hidden name, and give it its own when it is filled."""
        address = address_of(locator)
        server = self._server(address)
        server.bring_up()
        taken = errors.BankExists(f"{address.place}/{address.bank}")
        if server.execute("SELECT FROM rbank.bank WHERE name = $1", (address.bank,)):
            raise taken
        chain = json.dumps([astuple(each) for each in ancestors])
        draft = f".{os.urandom(12).hex()}"
        making = ("SELECT rbank.make_bank($1, $2, $3::jsonb, $4)", (draft, bank_id, chain, lines.GENESIS))
        number = server.patiently(lambda: server.once(*making))
        made = False
        try:
            with self._log(server, draft, number, bank_id, ancestors, options) as log:
                fill(log)
            made = server.patiently(lambda: server.name_bank(number, address.bank))
        finally:
            if not made:
                with suppress(errors.LogError):
                    server.once("SELECT rbank.drop_draft($1)", (number,))
        if not made:
            raise taken
        return self._log(server, address.bank, number, bank_id, ancestors, options)


ENGINE = PostgresEngine()
