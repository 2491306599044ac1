"""PostgreSQL with pgvector: a gallery is a schema with two tables, a change is a transaction.

    COLLECTION.notes    one row: what is known of the gallery as a whole
    COLLECTION.items    number, handle, id, label, metadata, moments, key
    COLLECTION.shrunk_xxxxxxxx    with a prior: number, key; the one of the prior before it, too, for who still reads it

Small galleries are scanned, which is exact. `compact` builds an HNSW index for large ones, which is not; dropping the
index brings the scan back. Any number of processes may write: their changes take turns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.items import Item, short
from howsure.index.remote.contract import Address, Row, handle_of

# From here on an HNSW index pays; a scan of so many keys of 128 dimensions takes about 30 ms.
INDEXED = 50_000
# pgvector's own limits: dimensions of a vector, dimensions of an indexed vector, and candidates of one index scan.
WIDEST, WIDEST_INDEXED, MOST = 16_000, 2_000, 1_000
ROWS = 1 << 12  # read at a time

Values = Sequence[Any] | dict[str, Any]


class Postgres:
    """One connection. Satisfies `Server`."""

    def __init__(self, address: Address):
        self.url = address.url
        *_, database, collection = address.path
        self._schema = collection
        where = {"host": address.host or None, "port": address.port, "dbname": database, **_encryption(address.options)}
        self._settings = make_conninfo("", connect_timeout=10, application_name="howsure", **where)
        self._secure = address.options.get("secure") == "true"
        self._db: psycopg.Connection[Any] | None = None
        self._closed = False
        self._connection()

    def close(self) -> None:
        self._closed = True
        if self._db:
            self._db.close()

    def _connection(self) -> psycopg.Connection[Any]:
        """The connection, made again if the server has ended it."""
        if self._closed:
            raise GalleryError(f"gallery {self.url}", expected="an open index", got="a closed one")
        if self._db is None or self._db.closed:
            with _gallery_errors(self.url):
                self._db = psycopg.connect(self._settings, autocommit=True)
            if self._secure and not self._db.pgconn.ssl_in_use:  # libpq asks for nothing of the kind from a socket
                self._db.close()
                raise GalleryError(
                    f"gallery {self.url}",
                    expected="an encrypted connection",
                    got="a socket",
                    fix="leave secure=true out: nothing leaves this machine",
                )
        return self._db

    def _named(self, statement: str, table: str | None = None) -> sql.Composed:
        """A statement in which {schema}, {items} and {notes} are those of this gallery, and {table} is one of it."""
        names = {name: sql.Identifier(self._schema, name) for name in ("items", "notes")}
        names |= {"schema": sql.Identifier(self._schema), "table": sql.Identifier(self._schema, table or "items")}
        return sql.SQL(statement).format(**names)

    def _do(self, statement: str, values: Values = (), *, table: str | None = None) -> None:
        with _gallery_errors(self.url), self._connection().cursor() as cursor:
            cursor.execute(self._named(statement, table), values)

    def _all(self, statement: str, values: Values = (), *, table: str | None = None) -> list[Any]:
        with _gallery_errors(self.url), self._connection().cursor() as cursor:
            return cursor.execute(self._named(statement, table), values).fetchall()

    # The gallery as a whole.

    def notes(self) -> dict[str, Any] | None:
        found = self._all("SELECT to_regclass(%s)", [sql.Identifier(self._schema, "notes").as_string()])
        if found == [(None,)]:
            return None
        # Inside a change the row is locked, so that changes take turns.
        changing = self._connection().info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        lock = " FOR UPDATE" if changing and not self._reading else ""
        return dict(self._all(f"SELECT document FROM {{notes}}{lock}")[0][0])

    def create(self, notes: dict[str, Any]) -> None:
        with self.changing():
            if self._all("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]):
                raise GalleryError(
                    f"gallery {self.url}",
                    expected="a new collection",
                    got=f"a schema {self._schema} with other things",
                    fix="choose another name",
                )
            self._do("CREATE EXTENSION IF NOT EXISTS vector")
            self._do("CREATE SCHEMA {schema}")
            self._do("CREATE TABLE {notes} (document json NOT NULL)")
            self._do("INSERT INTO {notes} VALUES (%s)", [json.dumps(notes)])

    def make_room(self, notes: dict[str, Any], *, width: int, moments: int) -> None:
        if width > WIDEST:
            raise GalleryError(
                f"gallery {self.url}",
                expected=f"keys of up to {WIDEST} dimensions, which pgvector can hold",
                got=str(width),
                fix="use fewer draws or dimensions, or a gallery in a directory",
            )
        self._do("DROP TABLE IF EXISTS {items}")
        self._do(
            "CREATE TABLE {items} (number bigint PRIMARY KEY, handle uuid NOT NULL UNIQUE, id text NOT NULL,"
            f" label text, label_handle uuid, metadata json NOT NULL, moments bytea NOT NULL, key vector({width:d}))"
        )
        self._do("CREATE INDEX ON {items} (label_handle)")

    def make_shrunk(self, notes: dict[str, Any], name: str, *, width: int, moments: int) -> None:
        # An item takes its shrunk mean with it. A new one comes after it, but before the end of the change.
        self._do(
            "CREATE TABLE {table} (number bigint PRIMARY KEY REFERENCES {items} ON DELETE CASCADE"
            f" DEFERRABLE INITIALLY DEFERRED, key vector({width:d}))",
            table=_shrunk(name),
        )

    def keep_shrunk(self, name: str, before: str | None) -> None:
        # Who reads `before` at this moment has not locked it yet, so it stays until the next time.
        tables = self._all("SELECT tablename FROM pg_tables WHERE schemaname = %s", [self._schema])
        for (table,) in tables:
            if table.startswith(_shrunk("")) and table not in (_shrunk(name), _shrunk(before or name)):
                self._do("DROP TABLE {table}", table=table)

    def write_notes(self, notes: dict[str, Any]) -> None:
        self._do("UPDATE {notes} SET document = %s", [json.dumps(notes)])

    # Transactions.

    _reading = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        with _gallery_errors(self.url), self._connection().transaction():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with _gallery_errors(self.url), self._connection().transaction():
            self._do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._reading = True
            try:
                yield
            finally:
                self._reading = False

    def reachable(self, *, shrunk: str | None = None) -> int | None:
        return None  # a table is there or not

    # Items.

    def put(self, rows: Sequence[Row], keys: np.ndarray, *, shrunk: str | None = None) -> None:
        if shrunk:
            lines = ((row.number, _text(key)) for row, key in zip(rows, keys, strict=True))
            self._copy("COPY {table} (number, key) FROM STDIN", lines, table=_shrunk(shrunk))
            return
        self._check_text(rows)
        self.delete([row.handle for row in rows])
        columns = "number, handle, id, label, label_handle, metadata, moments, key"
        self._copy(f"COPY {{items}} ({columns}) FROM STDIN", map(_line, rows, keys))

    def _copy(self, statement: str, lines: Iterable[tuple[Any, ...]], *, table: str | None = None) -> None:
        named = self._named(statement, table)
        with _gallery_errors(self.url), self._connection().cursor() as cursor, cursor.copy(named) as copy:
            for line in lines:
                copy.write_row(line)

    def _check_text(self, rows: Iterable[Row]) -> None:
        for row in rows:
            for text in (row.item.id, row.item.label or ""):
                if "\0" in text:
                    raise GalleryError(
                        "ids and labels on PostgreSQL", expected="no character 0", got=short(text), fix="rename it"
                    )

    def delete(self, handles: Sequence[str], *, shrunk: str | None = None) -> None:
        if shrunk:
            return  # they went with the items
        self._do("DELETE FROM {items} WHERE handle = ANY (%s::uuid[])", [list(handles)])

    def fetch(self, handles: Sequence[str], *, moments: bool = False) -> list[Row]:
        extra = ", moments" if moments else ""
        statement = f"SELECT number, id, label, metadata{extra} FROM {{items}} WHERE handle = ANY (%s::uuid[])"
        rows = self._all(statement, [list(handles)])
        return [Row(number, Item(name, label, notes), *rest) for number, name, label, notes, *rest in rows]

    def scan(self, *, moments: bool = False) -> Iterator[Row]:
        extra = ", moments" if moments else ""
        statement = self._named(f"SELECT number, id{extra} FROM {{items}}")
        # A cursor with a name stays on the server, and with it what was not read yet.
        with _gallery_errors(self.url), self._connection().cursor(name="scan") as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(ROWS):
                for number, name, *rest in rows:
                    yield Row(number, Item(name, None, {}), *rest)

    def sample(self, count: int) -> list[str]:
        return [name for (name,) in self._all("SELECT id FROM {items} ORDER BY handle LIMIT %s", [count])]

    def label_counts(self, labels: Collection[str]) -> Mapping[str, int]:
        statement = "SELECT label, count(*) FROM {items} WHERE label_handle = ANY (%s::uuid[]) GROUP BY label"
        return dict(self._all(statement, [[handle_of(label) for label in labels]]))

    # Searching.

    def nearest(self, keys: np.ndarray, count: int, *, shrunk: str | None = None) -> tuple[list[list[Row]], np.ndarray]:
        table = _shrunk(shrunk) if shrunk else "items"
        indexed = count <= MOST and self._indexed(table)
        found, reach = [], np.empty(len(keys))
        for query, key in enumerate(keys):
            rows = self._candidates(key, count, table=table, indexed=indexed)
            if indexed and len(rows) < count:  # the index walk ended early; a scan does not
                rows = self._candidates(key, count, table=table, indexed=False)
            found.append([Row(number, Item(name, None, {}), moments) for number, name, moments, _ in rows])
            # pgvector sums in float32 like our own scan, so the same bound holds.
            reach[query] = -np.inf if indexed else rows[-1][3] ** 2 if rows else np.inf
        return found, reach

    def _candidates(self, key: np.ndarray, count: int, *, table: str, indexed: bool) -> list[Any]:
        # Local to the transaction of this search.
        self._do(f"SET LOCAL enable_indexscan = {'on' if indexed else 'off'}")
        self._do(f"SET LOCAL enable_seqscan = {'off' if indexed else 'on'}")
        if indexed:
            self._do(f"SET LOCAL hnsw.ef_search = {count:d}")
        near = "SELECT *, key <-> %(key)s::vector AS distance FROM {table} ORDER BY distance LIMIT %(count)s"
        beside = "" if table == "items" else "JOIN {items} USING (number) "
        statement = f"SELECT number, id, moments, distance FROM ({near}) AS near {beside}ORDER BY distance"
        return self._all(statement, {"key": _text(key), "count": count}, table=table)

    def _indexed(self, table: str) -> bool:
        name = sql.Identifier(self._schema, _index(table)).as_string()
        return bool(self._all("SELECT to_regclass(%s)", [name])[0][0])

    def settle(self, count: int, *, shrunk: str | None) -> bool:
        built = False
        for table in ("items", _shrunk(shrunk)) if shrunk else ("items",):
            width = self._all("SELECT vector_dims(key) FROM {table} LIMIT 1", table=table)
            if count >= INDEXED and width and width[0][0] <= WIDEST_INDEXED and not self._indexed(table):
                index = f"CREATE INDEX IF NOT EXISTS {_index(table)} ON {{table}} USING hnsw (key vector_l2_ops)"
                self._do(index, table=table)
                self._do("ANALYZE {table}", table=table)
                built = True
        return built


def _encryption(options: Mapping[str, str]) -> dict[str, str]:
    """The options in libpq's own words. What they leave out, it takes from PGSSLMODE, PGSSLROOTCERT and the like."""
    settings = {name: value for name, value in options.items() if name not in ("secure", "ca")}
    if options.get("secure") == "true":
        settings["sslmode"] = "verify-full"
        if "ca" in options or "PGSSLROOTCERT" not in os.environ:
            settings["sslrootcert"] = options.get("ca", "system")
    return settings


def _shrunk(name: str) -> str:
    return f"shrunk_{name}"


def _index(table: str) -> str:
    return "nearest" if table == "items" else f"nearest_{table}"


def _line(row: Row, key: np.ndarray) -> tuple[Any, ...]:
    item = row.item
    marked = None if item.label is None else handle_of(item.label)
    notes = json.dumps(dict(item.metadata))
    return row.number, row.handle, item.id, item.label, marked, notes, row.moments, _text(key)


def _text(key: np.ndarray) -> str:
    # A float32 as a double in decimal: reading it back rounds to the same float32.
    return f"[{','.join(map(repr, key.tolist()))}]"


@contextmanager
def _gallery_errors(url: str) -> Iterator[None]:
    """Turn the client's errors into ours."""
    try:
        yield
    except psycopg.OperationalError as error:
        message = str(error).strip().replace("\n", " ")
        untrusted = "certificate" in message.lower()
        raise GalleryUnavailableError(
            f"gallery {url}",
            expected="a server with a certificate that is trusted" if untrusted else "an answer of the server",
            got=message,
            fix="name the certificate to trust with ?secure=true&ca=FILE, or PGSSLROOTCERT, and the host as it does"
            if untrusted
            else "check that it runs, and PGUSER, PGPASSWORD and sslmode",
        ) from error
    except psycopg.Error as error:
        message = str(error).strip().replace("\n", " ")
        raise GalleryError(f"gallery {url}", expected="PostgreSQL to do it", got=message) from error
