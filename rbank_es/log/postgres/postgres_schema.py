"""The tables and functions of logs on a server: each version of them, and the way from each to the next.

Tables belong to one role. Whoever may append has EXECUTE on the functions, which run with their owner's rights and
change nothing that is there; whoever may read has SELECT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rbank_es.errors import BadInput

if TYPE_CHECKING:
    import psycopg

LEASE_TAKEN, HEAD_BEHIND, BANK_GONE = "RB001", "RB002", "RB003"
"""The SQLSTATEs with which `append` refuses."""

_FIRST = """
CREATE SCHEMA rbank;
CREATE TABLE rbank.version (number integer NOT NULL);
INSERT INTO rbank.version VALUES (0);
CREATE TABLE rbank.bank (
  no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" UNIQUE NOT NULL, id text NOT NULL,
  ancestors jsonb NOT NULL, made timestamptz NOT NULL DEFAULT now(),
  seq bigint NOT NULL DEFAULT 0, at text NOT NULL DEFAULT '', digest bytea NOT NULL, epoch bigint NOT NULL DEFAULT 0,
  kinds text[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
CREATE TABLE rbank.event (
  bank bigint NOT NULL, seq bigint NOT NULL, id uuid NOT NULL, type text COLLATE "C" NOT NULL, run text COLLATE "C",
  digest bytea NOT NULL, line bytea NOT NULL, PRIMARY KEY (bank, seq)
);
CREATE UNIQUE INDEX event_id ON rbank.event (bank, id);
CREATE INDEX event_run ON rbank.event (bank, run, seq) WHERE run IS NOT NULL;
CREATE INDEX event_type ON rbank.event (bank, type, seq);
CREATE TABLE rbank.text (
  bank bigint NOT NULL, key text COLLATE "C" NOT NULL, seq bigint NOT NULL, number integer NOT NULL, digest bytea,
  line bytea NOT NULL, PRIMARY KEY (bank, key)
);
CREATE INDEX text_place ON rbank.text (bank, seq, number);
CREATE INDEX text_digest ON rbank.text (bank, digest) WHERE digest IS NOT NULL;
CREATE TABLE rbank.turn (bank bigint PRIMARY KEY);
CREATE TABLE rbank.lease (
  bank bigint NOT NULL, name text COLLATE "C" NOT NULL, fence bigint NOT NULL, until timestamptz NOT NULL,
  taker bytea NOT NULL, PRIMARY KEY (bank, name)
);

-- Lock the head row, for seconds at most, and return it with the digest at a position that the writer remembers.
CREATE FUNCTION rbank.lock_head(b bigint, remembered bigint, wait_ms bigint, idle_ms bigint)
RETURNS TABLE (seq bigint, at text, digest bytea, kinds text[], line bytea, remembered_digest bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE setting text;
BEGIN
  -- Local to the transaction, because a pooler gives the session to others.
  setting := set_config('lock_timeout', wait_ms::text, true);
  setting := set_config('idle_in_transaction_session_timeout', idle_ms::text, true);
  -- A row that nobody updates: who waits for one that is updated is woken by each update, with all others.
  PERFORM FROM rbank.turn t WHERE t.bank = b FOR UPDATE;
  PERFORM FROM rbank.bank h WHERE h.no = b FOR UPDATE;
  IF NOT FOUND THEN RAISE 'the bank is gone' USING ERRCODE = 'RB003'; END IF;
  RETURN QUERY SELECT h.seq, h.at, h.digest, h.kinds, e.line, r.digest FROM rbank.bank h
    LEFT JOIN rbank.event e ON e.bank = b AND e.seq = h.seq
    LEFT JOIN rbank.event r ON r.bank = b AND r.seq = remembered WHERE h.no = b;
END $$;

-- One round trip: lock the head row, compare, insert, move the head. Where the head is elsewhere, nothing is written.
-- A known id breaks event_id.
CREATE FUNCTION rbank.append(
  b bigint, after bigint, after_digest bytea, now_at text, ids uuid[], types text[], runs text[], digests bytea[],
  rows bytea[], keys text[], text_seqs bigint[], text_numbers bigint[], text_digests bytea[], text_rows bytea[],
  new_kinds text[], lease_names text[], fences bigint[], synced boolean, wait_ms bigint
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE n integer := cardinality(ids); known text[]; head bigint; head_digest bytea; setting text;
BEGIN
  setting := set_config('lock_timeout', wait_ms::text, true);
  -- Inside and until the end of the transaction: a SET of the function would end before the commit.
  IF NOT synced THEN setting := set_config('synchronous_commit', 'off', true);
  ELSIF current_setting('synchronous_commit') = 'off' THEN
    setting := set_config('synchronous_commit', 'on', true);
  END IF;
  UPDATE rbank.bank h SET seq = after + n, at = now_at, digest = digests[n]
    WHERE h.no = b AND h.seq = after AND h.digest = after_digest RETURNING h.kinds INTO known;
  IF NOT FOUND THEN
    SELECT h.seq, h.digest INTO head, head_digest FROM rbank.bank h WHERE h.no = b;
    IF NOT FOUND THEN RAISE 'the bank is gone' USING ERRCODE = 'RB003'; END IF;
    IF head < after OR (head = after AND head_digest <> after_digest) THEN
      RAISE 'the log is behind' USING ERRCODE = 'RB002';
    END IF;
    RETURN false;
  END IF;
  IF cardinality(lease_names) > 0 THEN
    IF EXISTS (SELECT FROM unnest(lease_names, fences) w(name, fence) WHERE NOT EXISTS
               (SELECT FROM rbank.lease l WHERE l.bank = b AND l.name = w.name AND l.fence = w.fence)) THEN
      RAISE 'another holds the lease' USING ERRCODE = 'RB001';
    END IF;
  END IF;
  IF NOT known @> new_kinds THEN
    UPDATE rbank.bank h SET kinds = ARRAY(SELECT DISTINCT k FROM unnest(known || new_kinds) k) WHERE h.no = b;
  END IF;
  IF 'content_erased' = ANY(types) THEN
    UPDATE rbank.bank h SET epoch = after + (SELECT max(t.number) FROM unnest(types) WITH ORDINALITY t(type, number)
                                             WHERE t.type = 'content_erased') WHERE h.no = b;
  END IF;
  IF cardinality(keys) > 0 THEN
    INSERT INTO rbank.text SELECT b, * FROM unnest(keys, text_seqs, text_numbers, text_digests, text_rows);
  END IF;
  INSERT INTO rbank.event SELECT b, after + w.number, w.id, w.type, w.run, w.digest, w.line
    FROM unnest(ids, types, runs, digests, rows) WITH ORDINALITY w(id, type, run, digest, line, number);
  RETURN true;
END $$;

CREATE FUNCTION rbank.make_bank(draft text, bank_id text, forked_from jsonb, genesis bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE made bigint; left_over bigint;
BEGIN
  IF draft NOT LIKE '.%' THEN RAISE 'a bank begins under a hidden name'; END IF;
  FOR left_over IN SELECT no FROM rbank.bank b WHERE b.name LIKE '.%' AND b.made < now() - interval '1 day' LOOP
    PERFORM rbank.drop_draft(left_over);  -- its maker was killed
  END LOOP;
  INSERT INTO rbank.bank (name, id, ancestors, digest) VALUES (draft, bank_id, forked_from, genesis)
    RETURNING no INTO made;
  INSERT INTO rbank.turn VALUES (made);
  RETURN made;
END $$;

CREATE FUNCTION rbank.name_bank(b bigint, given text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE rbank.bank SET name = given WHERE no = b AND name LIKE '.%';
END $$;

CREATE FUNCTION rbank.drop_draft(b bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM rbank.bank WHERE no = b AND name LIKE '.%';
  IF FOUND THEN
    DELETE FROM rbank.event WHERE bank = b;
    DELETE FROM rbank.text WHERE bank = b;
    DELETE FROM rbank.lease WHERE bank = b;
    DELETE FROM rbank.turn WHERE bank = b;
  END IF;
END $$;

-- Return the number of a lease, null while another holds it. Behind the head row, so no append is half way meanwhile.
-- Who asks again, because the answer was lost, has it already.
CREATE FUNCTION rbank.take_lease(b bigint, wanted text, held_s double precision, who bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE taken bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'on', true), set_config('lock_timeout', '30s', true);
  -- An update, so that an append whose snapshot is older fails where a database is serializable, and is made again.
  UPDATE rbank.bank SET seq = seq WHERE no = b;
  INSERT INTO rbank.lease AS l VALUES (b, wanted, 1, clock_timestamp() + make_interval(secs => held_s), who)
    ON CONFLICT (bank, name) DO UPDATE SET fence = l.fence + 1, until = excluded.until, taker = who
      WHERE l.until < clock_timestamp() OR l.taker = who
    RETURNING fence INTO taken;
  RETURN taken;
END $$;

-- Hold a lease for longer, or with 0 s end it; false where another took over.
CREATE FUNCTION rbank.renew_lease(b bigint, held text, number bigint, held_s double precision) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE rbank.lease SET until = clock_timestamp() + make_interval(secs => held_s)
    WHERE bank = b AND name = held AND fence = number;
  RETURN FOUND;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA rbank FROM PUBLIC;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)
"""What makes each version of the one before; the first of nothing."""

_LOCK = 730_113  # of a transaction, so it passes a pooler: one process migrates


def version_of(execute: Callable[[str], Sequence[tuple[Any, ...]]]) -> int:
    """Return the version of the schema of a database; 0 for none. Raises `BadInput` for one of a later release."""
    # Not by to_regclass: it may answer from what the session knew before it waited for another that made the tables.
    where = "c.relnamespace = n.oid AND n.nspname = 'rbank' AND c.relname = 'version'"
    if not execute(f"SELECT FROM pg_class c, pg_namespace n WHERE {where}"):
        return 0
    [(number,)] = execute("SELECT number FROM rbank.version")
    if number > len(MIGRATIONS):
        raise BadInput(
            f"the tables of banks there have version {number}, and this release knows {len(MIGRATIONS)}: upgrade it"
        )
    return int(number)


def _rows_of(db: psycopg.Connection, statement: str) -> Sequence[tuple[Any, ...]]:
    return db.execute(statement.encode()).fetchall()


def bring_up(db: psycopg.Connection) -> None:
    """Make or migrate the schema where it is not of this release; for its owner, in a transaction of its own."""
    if version_of(partial(_rows_of, db)) == len(MIGRATIONS):
        return
    db.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    number = version_of(partial(_rows_of, db))
    for statements in MIGRATIONS[number:]:
        db.execute(statements.encode())
    if number < len(MIGRATIONS):
        db.execute("UPDATE rbank.version SET number = %s", [len(MIGRATIONS)])
