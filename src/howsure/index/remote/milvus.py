"""Milvus, standalone or a cluster: a gallery is two collections, or three.

    COLLECTION            no rows; its property `howsure` holds the notes about the gallery as a whole
    COLLECTION_xxxxxxxx   the items: handle, number, id, label, notes, moments, key
    COLLECTION_xxxxxxxx_yyyyyyyy   with a prior, the same with shrunk means as keys: a collection has one vector field

Moments travel as text (base64) in full precision, so `get` is bit for bit; the vector field is never fetched. Milvus
finds candidates only: its scores, thresholds and ranges decide nothing. It has no transactions: an acknowledged change
is whole, one that fails may be there in part. One process at a time may write; Milvus cannot see to that.

Reads are strongly consistent, so that a change is seen at the next call. That waits for the servers' clock: 0.2 s.
"""

from __future__ import annotations

import json
import logging
import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any

import grpc
import numpy as np
from pymilvus import DataType, MilvusClient, MilvusException

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.items import Item, short
from howsure.index.remote.contract import Address, Row, handle_of

PORT = 19530
SHARDS = 2
# Milvus' own limits: bytes of a text, results of a query, dimensions of a vector.
LONGEST, MOST, WIDEST = 65_535, 16_384, 32_768
BYTES = 8 << 20  # sent at a time: an eighth of what a server takes
CHUNK = 1_000  # handles named in one request
ROWS = 4_096  # read at a time
PATIENCE, PATIENCE_READING = 60.0, 30.0  # seconds for one call; meanwhile the client tries again by itself


class Milvus:
    """One client. Satisfies `Server`."""

    def __init__(self, address: Address):
        self.url = address.url
        (self._name,) = address.path
        secure = address.options.get("secure") == "true"
        # A token holds a user and a password; a lone user without one is nobody.
        user = {"user": os.environ.get("MILVUS_USER", ""), "password": os.environ.get("MILVUS_PASSWORD", "")}
        # The client prints a traceback for every error that it also raises.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        trust = {"server_pem_path": address.options.get("ca", ""), "server_name": address.options.get("name", "")}
        with _gallery_errors(self.url):
            self._client = MilvusClient(
                uri=f"{'https' if secure else 'http'}://{address.host or 'localhost'}:{address.port or PORT}",
                token=os.environ.get("MILVUS_TOKEN", ""),
                timeout=PATIENCE_READING,
                dedicated=True,  # else one to the same address is used again, encrypted or not
                **user,
                **({"secure": True, **trust} if secure else {}),
            )
        self._replicas = int(address.options.get("replicas", "1"))
        self._items = ""  # the collection of the items, known with the notes
        self._loaded: set[str] = set()

    def close(self) -> None:
        self._client.close()

    # The gallery as a whole.

    def notes(self) -> dict[str, Any] | None:
        with _gallery_errors(self.url):
            if not self._client.has_collection(self._name):
                return None
            found = self._client.describe_collection(self._name)["properties"].get("howsure")
        if found is None:
            raise GalleryError(
                f"gallery {self.url}",
                expected="a collection that howsure made",
                got="another",
                fix="choose another name",
            )
        notes: dict[str, Any] = json.loads(found)
        if not self._items and notes["layout"]:
            self._items = self._items_of(notes)
        return notes

    def _items_of(self, notes: dict[str, Any]) -> str:
        return f"{self._name}_{notes['gallery'][:8]}"

    def _at(self, shrunk: str | None) -> str:
        """The collection of the items, or of shrunk means."""
        collection = f"{self._items}_{shrunk}" if shrunk else self._items
        if collection not in self._loaded:
            self._load(collection)
        return collection

    def _load(self, collection: str) -> None:
        """Milvus searches what is in the memory of its query nodes; usually it is there already."""
        with _gallery_errors(self.url):
            if str(self._client.get_load_state(collection)["state"]) != "Loaded":
                self._client.load_collection(collection, replica_number=self._replicas, timeout=PATIENCE)
        self._loaded.add(collection)

    def create(self, notes: dict[str, Any]) -> None:
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("name", DataType.VARCHAR, max_length=64, is_primary=True)
        schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)
        with _gallery_errors(self.url):
            self._client.create_collection(self._name, schema=schema, properties={"howsure": json.dumps(notes)})

    def make_room(self, notes: dict[str, Any], *, width: int, moments: int) -> None:
        text = 4 * -(-moments // 3)
        if width > WIDEST or text > LONGEST:
            raise GalleryError(
                f"gallery {self.url}",
                expected=f"keys of up to {WIDEST} dimensions and moments of up to {LONGEST * 3 // 4} bytes",
                got=f"{width} dimensions and {moments} bytes",
                fix="use fewer draws or dimensions, or a gallery in a directory",
            )
        self._items = self._items_of(notes)
        self._make(self._items, width=width, text=text)

    def make_shrunk(self, notes: dict[str, Any], name: str, *, width: int, moments: int) -> None:
        # Moments are there a second time, so that candidates need no second look.
        self._make(f"{self._items}_{name}", width=width, text=4 * -(-moments // 3))

    def keep_shrunk(self, name: str, before: str | None) -> None:
        # Who reads `before` at this moment gets an error, sees that the notes have changed, and looks again.
        with _gallery_errors(self.url):
            for collection in self._client.list_collections():
                if collection.startswith(f"{self._items}_") and collection != f"{self._items}_{name}":
                    self._client.drop_collection(collection)

    def _make(self, collection: str, *, width: int, text: int) -> None:
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("handle", DataType.VARCHAR, max_length=32, is_primary=True)
        schema.add_field("number", DataType.INT64)
        for name, longest in {"id": LONGEST, "label": 32, "notes": LONGEST, "moments": text}.items():
            schema.add_field(name, DataType.VARCHAR, max_length=longest)
        schema.add_field("key", DataType.FLOAT_VECTOR, dim=width)
        index = self._client.prepare_index_params()
        index.add_index("key", index_type="HNSW", metric_type="L2", params={"M": 16, "efConstruction": 200})
        with _gallery_errors(self.url):
            if self._client.has_collection(collection):
                self._client.drop_collection(collection)
            self._client.create_collection(collection, schema=schema, num_shards=SHARDS, consistency_level="Strong")
            self._client.create_index(collection, index)
        self._load(collection)

    def write_notes(self, notes: dict[str, Any]) -> None:
        # Milvus 2.3.5 stores the properties before an alteration, not those after it, and shows the stored ones once it
        # has been restarted. The second time, both are the same.
        with _gallery_errors(self.url):
            for _ in range(2):
                self._client.alter_collection_properties(self._name, properties={"howsure": json.dumps(notes)})

    def changing(self) -> AbstractContextManager[None]:
        return nullcontext()

    reading = changing

    def reachable(self, *, shrunk: str | None = None) -> int | None:
        return int(self._query("", ["count(*)"], shrunk=shrunk)[0]["count(*)"])

    # Items.

    def put(self, rows: Sequence[Row], keys: np.ndarray, *, shrunk: str | None = None) -> None:
        entities = [self._entity(row, key) for row, key in zip(rows, keys, strict=True)]
        batch, size = [], 0
        for number, (row, entity) in enumerate(zip(rows, entities, strict=True), start=1):
            batch.append(entity)
            size += 4 * keys.shape[1] + 2 * len(row.moments) + len(entity["notes"]) + len(entity["id"])
            if size > BYTES or number == len(rows):
                with _gallery_errors(self.url):
                    self._client.upsert(self._at(shrunk), batch, timeout=PATIENCE)
                batch, size = [], 0

    def _entity(self, row: Row, key: np.ndarray) -> dict[str, Any]:
        item = row.item
        notes = json.dumps([item.label, dict(item.metadata)])
        for text in (item.id, notes):
            if len(text.encode()) > LONGEST:
                raise GalleryError(
                    "texts of an item on Milvus", expected=f"up to {LONGEST} bytes", got=short(text), fix="shorten it"
                )
        return {
            "handle": row.handle,
            "number": row.number,
            "id": item.id,
            "label": "" if item.label is None else handle_of(item.label),
            "notes": notes,
            "moments": b64encode(row.moments).decode(),
            "key": key,
        }

    def delete(self, handles: Sequence[str], *, shrunk: str | None = None) -> None:
        with _gallery_errors(self.url):
            for start in range(0, len(handles), CHUNK):
                self._client.delete(self._at(shrunk), ids=list(handles[start : start + CHUNK]), timeout=PATIENCE)

    def fetch(self, handles: Sequence[str], *, moments: bool = False) -> list[Row]:
        fields = ["number", "id", "notes"] + ["moments"] * moments
        return [_row(found) for some in _named(handles) for found in self._query(f"handle in {some}", fields)]

    def scan(self, *, moments: bool = False) -> Iterator[Row]:
        return map(_row, self._pages("", ["number", "id"] + ["moments"] * moments))

    def sample(self, count: int) -> list[str]:
        return [row.item.id for row in islice(self.scan(), count)]

    def label_counts(self, labels: Collection[str]) -> Mapping[str, int]:
        names = {handle_of(label): label for label in labels}
        counts: Counter[str] = Counter()
        for some in _named(names):
            counts.update(names[found["label"]] for found in self._pages(f"label in {some} and ", ["label"]))
        return counts

    def _pages(self, where: str, fields: list[str]) -> Iterator[dict[str, Any]]:
        """All rows, however many: Milvus gives the first of them by the primary key."""
        last = ""
        while found := self._query(f'{where}handle > "{last}"', fields, limit=ROWS):
            yield from found
            last = max(one["handle"] for one in found)

    def _query(self, where: str, fields: list[str], *, shrunk: str | None = None, **limit: int) -> list[dict[str, Any]]:
        with _gallery_errors(self.url):
            settings = {"consistency_level": "Strong", "timeout": PATIENCE_READING}
            found = self._client.query(self._at(shrunk), filter=where, output_fields=fields, **settings, **limit)
        return list(found)

    # Searching.

    def nearest(self, keys: np.ndarray, count: int, *, shrunk: str | None = None) -> tuple[list[list[Row]], np.ndarray]:
        if count > MOST:
            raise GalleryError(
                "search on Milvus", expected=f"up to {MOST} candidates", got=str(count), fix="ask for fewer matches"
            )
        with _gallery_errors(self.url):
            found = self._client.search(
                self._at(shrunk),
                np.ascontiguousarray(keys),
                limit=count,
                output_fields=["number", "id", "moments"],
                search_params={"params": {"ef": 2 * count}},
                consistency_level="Strong",
                timeout=PATIENCE_READING,
            )
        return [[_row(one["entity"]) for one in row] for row in found], np.full(len(keys), -np.inf)

    def settle(self, count: int, *, shrunk: str | None) -> bool:
        return False  # Milvus builds its indexes by itself


def _named(handles: Iterable[str]) -> Iterator[str]:
    """The handles as lists in the language of Milvus, each short enough for one request."""
    names = list(handles)
    return (json.dumps(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK))


def _row(found: dict[str, Any]) -> Row:
    label, metadata = json.loads(found.get("notes", "[null, {}]"))
    return Row(found["number"], Item(found["id"], label, metadata), b64decode(found.get("moments", "")))


@contextmanager
def _gallery_errors(url: str) -> Iterator[None]:
    """Turn the client's errors into ours. Milvus has one class for all of them, and a lost node may show as any."""
    try:
        yield
    except (MilvusException, grpc.RpcError) as error:
        message = getattr(error, "message", "") or getattr(error, "details", lambda: "")() or str(error)
        # gRPC does not say that it is the certificate.
        asked = "MILVUS_USER, MILVUS_PASSWORD or MILVUS_TOKEN"
        asked += ", and the certificate: ?secure=true&ca=FILE&name=SERVER" if "secure=true" in url else ""
        raise GalleryUnavailableError(
            f"gallery {url}",
            expected="an answer of the server for all of the gallery",
            got=message.strip().replace("\n", " ")[:300],
            fix=f"check that it runs, and {asked}; a lost node takes it a minute",
        ) from error
