"""What a server must do to hold a gallery: one file an engine, all with one contract.

The server is the truth: items, their packed moments, and one JSON document of notes about the gallery as a whole. It
finds candidates. Comparing, ranking and probabilities stay here, so they are the same on every engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from howsure.index.items import Item


def handle_of(text: str) -> str:
    """A short, plain name for any id or label: 32 hexadecimal digits that need no quoting and fit any index."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Address:
    """The parts of the URL of a gallery."""

    url: str
    host: str
    port: int | None
    path: tuple[str, ...]  # the last part is the collection
    options: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Row:
    """An item as a server stores it; moments are read only where they are asked for."""

    number: int
    item: Item
    moments: bytes = b""

    @property
    def handle(self) -> str:
        """What the server finds it by."""
        return handle_of(self.item.id)


class Server(Protocol):
    """One gallery on one server. Errors are `GalleryError`, or `GalleryUnavailableError` if trying again may help."""

    url: str  # for messages; it never holds a password

    def notes(self) -> dict[str, Any] | None:
        """What is known of the gallery as a whole; None if there is no gallery."""

    def create(self, notes: dict[str, Any]) -> None:
        """Start a gallery, without a table for items."""

    def make_room(self, notes: dict[str, Any], *, width: int, moments: int) -> None:
        """A table for items with keys of `width` dimensions and so many bytes of moments; the old one, empty, goes."""

    def make_shrunk(self, notes: dict[str, Any], name: str, *, width: int, moments: int) -> None:
        """A table of this name, empty, for the shrunk means of the items. Others stay as they are."""

    def keep_shrunk(self, name: str, before: str | None) -> None:
        """Drop the tables of other names, which nobody asks for; `before` was asked for until now."""

    def write_notes(self, notes: dict[str, Any]) -> None:
        """Replace the notes, durably."""

    def changing(self) -> AbstractContextManager[None]:
        """Inside is one change: whole or absent, if the server has transactions."""

    def reading(self) -> AbstractContextManager[None]:
        """Inside is one state of the gallery, if the server has transactions."""

    # With `shrunk`, the next four are about the table of that name, else about that of the items.

    def reachable(self, *, shrunk: str | None = None) -> int | None:
        """How many items a search can see at this moment; None if the server answers for all of them or not at all."""

    def put(self, rows: Sequence[Row], keys: np.ndarray, *, shrunk: str | None = None) -> None:
        """Insert rows, in place of those with the same handles, durably; a later reader sees them."""

    def delete(self, handles: Sequence[str], *, shrunk: str | None = None) -> None:
        """Delete rows, durably; a later reader does not see them."""

    def nearest(self, keys: np.ndarray, count: int, *, shrunk: str | None = None) -> tuple[list[list[Row]], np.ndarray]:
        """At least `count` candidates for each of Q keys, if the gallery and the server have so many.

        Their items need no label and metadata. With them comes the `reach` of `Candidates`, (Q,) float64.
        """

    def fetch(self, handles: Sequence[str], *, moments: bool = False) -> list[Row]:
        """Those of these rows that exist, in any order."""

    def scan(self, *, moments: bool = False) -> Iterator[Row]:
        """All rows, in any order, read a few at a time inside a change or a read; items need no label and metadata."""

    def sample(self, count: int) -> list[str]:
        """The ids of so many rows, or of all: those of the least handles. Handles are hashes, so that is by lot."""

    def label_counts(self, labels: Collection[str]) -> Mapping[str, int]:
        """How many items carry each of these labels; a label that none carries may be left out."""

    def settle(self, count: int, *, shrunk: str | None) -> bool:
        """Make a gallery of this many items quick to search, by its shrunk means too; whether that changed anything."""

    def close(self) -> None:
        """End the connection."""
