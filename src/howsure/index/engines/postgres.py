"""PostgreSQL with pgvector: a gallery is a schema with two tables, a change is a transaction.

    COLLECTION.notes    one row: what is known of the gallery as a whole
    COLLECTION.items    number, handle, id, label, metadata, moments, key

Small galleries are scanned, which is exact. `compact` builds an HNSW index for large ones, which is not; dropping the
index brings the scan back. Any number of processes may write: their changes take turns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.engines.server import Address, Hit, Nearest, Row, handle_of
from howsure.index.items import Item, short

# From here on an HNSW index pays; a scan of so many keys of 128 dimensions takes about 30 ms.
INDEXED = 50_000
# pgvector's own limits: dimensions of a vector, dimensions of an indexed vector, and candidates of one index scan.
WIDEST, WIDEST_INDEXED, MOST = 16_000, 2_000, 1_000
ROWS = 1 << 12  # read at a time


class Postgres:
    """One connection. Satisfies `Server`."""

    def __init__(self, address: Address):
        self.place = address.url
        *_, database, collection = address.path
        self._schema = collection
        place = {"host": address.host or None, "port": address.port, "dbname": database, **address.options}
        self._settings = make_conninfo("", connect_timeout=10, application_name="howsure", **place)
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
            raise GalleryError(f"gallery {self.place}", expected="an open index", got="a closed one")
        if self._db is None or self._db.closed:
            with _said_plainly(self.place):
                self._db = psycopg.connect(self._settings, autocommit=True)
        return self._db

    @contextmanager
    def _run(self, statement: str, values: Sequence[Any] | dict[str, Any] = ()) -> Iterator[psycopg.Cursor[Any]]:
        """A statement in which {name} is a table of this gallery."""
        schema = sql.Identifier(self._schema)
        composed = sql.SQL(statement).format(
            schema=schema, items=sql.Identifier(self._schema, "items"), notes=sql.Identifier(self._schema, "notes")
        )
        with _said_plainly(self.place), self._connection().cursor() as cursor:
            cursor.execute(composed, values)
            yield cursor

    def _do(self, statement: str, values: Sequence[Any] | dict[str, Any] = ()) -> None:
        with self._run(statement, values):
            return

    def _all(self, statement: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        with self._run(statement, values) as cursor:
            return cursor.fetchall()

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
                    f"gallery {self.place}",
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
                f"gallery {self.place}",
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

    def take_notes(self, notes: dict[str, Any]) -> None:
        self._do("UPDATE {notes} SET document = %s", [json.dumps(notes)])

    # Transactions.

    _reading = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        with _said_plainly(self.place), self._connection().transaction():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        with _said_plainly(self.place), self._connection().transaction():
            self._do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._reading = True
            try:
                yield
            finally:
                self._reading = False

    def reachable(self) -> int | None:
        return None  # a table is there or not

    # Items.

    def put(self, rows: Sequence[Row], keys: np.ndarray) -> None:
        self._check_text(rows)
        self.delete([row.handle for row in rows])
        columns = "COPY {items} (number, handle, id, label, label_handle, metadata, moments, key) FROM STDIN"
        schema = sql.SQL(columns).format(items=sql.Identifier(self._schema, "items"))
        with _said_plainly(self.place), self._connection().cursor() as cursor, cursor.copy(schema) as copy:
            for row, key in zip(rows, keys, strict=True):
                label = row.item.label
                marked = None if label is None else handle_of(label)
                notes = json.dumps(dict(row.item.metadata))
                copy.write_row((row.number, row.handle, row.item.id, label, marked, notes, row.moments, _text(key)))

    def _check_text(self, rows: Iterable[Row]) -> None:
        for row in rows:
            for text in (row.item.id, row.item.label or ""):
                if "\0" in text:
                    raise GalleryError(
                        "ids and labels on PostgreSQL", expected="no character 0", got=short(text), fix="rename it"
                    )

    def delete(self, handles: Sequence[str]) -> None:
        self._do("DELETE FROM {items} WHERE handle = ANY (%s::uuid[])", [list(handles)])

    def fetch(self, handles: Sequence[str], *, moments: bool = False) -> list[Row]:
        extra = ", moments" if moments else ""
        statement = f"SELECT number, id, label, metadata{extra} FROM {{items}} WHERE handle = ANY (%s::uuid[])"
        rows = self._all(statement, [list(handles)])
        return [Row(number, Item(name, label, notes), *rest) for number, name, label, notes, *rest in rows]

    def scan(self, *, moments: bool = False) -> Iterator[Row]:
        extra = ", moments" if moments else ""
        with self._run(f"SELECT number, id{extra} FROM {{items}}") as cursor:
            while rows := cursor.fetchmany(ROWS):
                for number, name, *rest in rows:
                    yield Row(number, Item(name, None, {}), *rest)

    def label_counts(self, labels: Collection[str]) -> Mapping[str, int]:
        statement = "SELECT label, count(*) FROM {items} WHERE label_handle = ANY (%s::uuid[]) GROUP BY label"
        return dict(self._all(statement, [[handle_of(label) for label in labels]]))

    # Searching.

    def nearest(self, keys: np.ndarray, count: int) -> Nearest:
        indexed = count <= MOST and self._indexed()
        hits, reach = [], np.empty(len(keys))
        for place, key in enumerate(keys):
            rows = self._candidates(key, count, indexed=indexed)
            if indexed and len(rows) < count:  # the index walk ended early; a scan does not
                rows = self._candidates(key, count, indexed=False)
            hits.append([Hit(number, name, moments) for number, name, moments, _ in rows])
            # pgvector sums in float32 like our own scan, so the same bound holds.
            reach[place] = -np.inf if indexed else rows[-1][3] ** 2 if rows else np.inf
        return Nearest(hits, reach)

    def _candidates(self, key: np.ndarray, count: int, *, indexed: bool) -> list[Any]:
        # Local to the transaction of this search.
        self._do(f"SET LOCAL enable_indexscan = {'on' if indexed else 'off'}")
        self._do(f"SET LOCAL enable_seqscan = {'off' if indexed else 'on'}")
        if indexed:
            self._do(f"SET LOCAL hnsw.ef_search = {count:d}")
        statement = (
            "SELECT number, id, moments, key <-> %(key)s::vector AS distance FROM {items}"
            " ORDER BY distance LIMIT %(count)s"
        )
        return self._all(statement, {"key": _text(key), "count": count})

    def _indexed(self) -> bool:
        return bool(self._all("SELECT to_regclass(%s)", [sql.Identifier(self._schema, "nearest").as_string()])[0][0])

    def settle(self, count: int) -> None:
        width = self._all("SELECT vector_dims(key) FROM {items} LIMIT 1")
        if count >= INDEXED and width and width[0][0] <= WIDEST_INDEXED:
            self._do("CREATE INDEX IF NOT EXISTS nearest ON {items} USING hnsw (key vector_l2_ops)")
            self._do("ANALYZE {items}")


def _text(key: np.ndarray) -> str:
    # A float32 as a double in decimal: reading it back rounds to the same float32.
    return f"[{','.join(map(repr, key.tolist()))}]"


@contextmanager
def _said_plainly(place: str) -> Iterator[None]:
    """Turn the client's errors into ours."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise GalleryUnavailableError(
            f"gallery {place}",
            expected="an answer of the server",
            got=str(error).strip().replace("\n", " "),
            fix="check that it runs, and PGUSER, PGPASSWORD and sslmode",
        ) from error
    except psycopg.Error as error:
        raise GalleryError(
            f"gallery {place}", expected="PostgreSQL to do it", got=str(error).strip().replace("\n", " ")
        ) from error
