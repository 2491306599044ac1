"""A server that loses a part of a gallery, or stops in the middle: no answer is for fewer than all items."""

from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from howsure import Point
from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index import ServerIndex
from howsure.index.engines.server import Hit, Nearest, handle_of
from howsure.index.items import Item


class Memory:
    """A server without transactions, of which a part can be lost; it can also stop within a change."""

    place = "memory://"

    def __init__(self):
        self.document, self.rows, self.keys = None, {}, {}
        self.lost = set()  # handles out of reach
        self.stop_after = None  # changes of one row until the server stops

    def _step(self):
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                raise GalleryUnavailableError("memory: stopped")

    def notes(self):
        return self.document

    def create(self, notes):
        self.document = notes

    take_notes = create

    def make_room(self, notes, *, width, moments):
        self.rows, self.keys = {}, {}

    @contextmanager
    def changing(self):
        yield

    reading = changing

    def _seen(self):
        return [handle for handle in self.rows if handle not in self.lost]

    def reachable(self):
        return len(self._seen())

    def put(self, rows, keys):
        for row, key in zip(rows, keys, strict=True):
            self._step()
            self.rows[row.handle], self.keys[row.handle] = row, key

    def delete(self, handles):
        for handle in handles:
            self._step()
            del self.rows[handle]

    def fetch(self, handles, *, moments=False):
        return [self.rows[handle] for handle in handles if handle in self._seen()]

    def scan(self, *, moments=False):
        return iter([self.rows[handle] for handle in self._seen()])

    def label_counts(self, labels):
        return Counter(self.rows[handle].item.label for handle in self._seen())

    def nearest(self, keys, count):
        def hits(key):
            near = sorted(self._seen(), key=lambda handle: ((self.keys[handle] - key) ** 2).sum())[:count]
            return [Hit(self.rows[h].number, self.rows[h].item.id, self.rows[h].moments) for h in near]

        return Nearest([hits(key) for key in keys], np.full(len(keys), -np.inf))

    def settle(self, count):
        pass

    def close(self):
        pass


def points(*values):
    return Point(torch.tensor([[float(value)] for value in values]))


@pytest.fixture
def server():
    return Memory()


@pytest.fixture
def index(server):
    index = ServerIndex.create(server)
    index.add([f"{n}" for n in range(300)], points(*range(300)), labels=["x"] * 300)
    return index


READS = {
    "search": lambda index: index.search(points(1), 5),
    "search of everything": lambda index: index.search(points(1), 300),
    "len": len,
    "ids": lambda index: index.ids(),
    "embedding": lambda index: index.embedding(),
    "get": lambda index: index.get(["7"]),
    "items": lambda index: index.items(["7"]),
    "contains": lambda index: "7" in index,
    "references": lambda index: index.references(["x", "none"]),
    "add": lambda index: index.add(["new"], points(1)),
    "remove": lambda index: index.remove(["8"]),
}


@pytest.mark.parametrize("name", READS)
def test_a_lost_item_is_an_error_and_then_all_is_well(server, index, name):
    server.lost.add(handle_of("7"))
    with pytest.raises(GalleryUnavailableError, match=r"got 299 that the server can reach|expected 300 candidates"):
        READS[name](index)
    server.lost.clear()
    READS[name](index)
    assert len(index) == 300 + (name == "add") - (name == "remove")


def test_an_item_in_reach_is_read_while_others_are_not(server, index):
    server.lost.add(handle_of("7"))
    assert index.get(["8"]).location.tolist() == [[8]]


def test_candidates_only_are_no_proof(index):
    found = index.search(points(100.2), 5)
    assert (found.exact, found.candidates) == (False, 200)
    assert found.ids.tolist() == [["100", "101", "99", "102", "98"]]


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_server_that_stops_within_a_change_loses_nothing_acknowledged(server, index, steps):
    server.stop_after = steps
    with pytest.raises(GalleryUnavailableError, match="stopped"):
        index.add([f"new {n}" for n in range(5)], points(*range(5)))
    server.stop_after = None
    assert set(index.ids()) >= {f"{n}" for n in range(300)}
    assert len(index) == 300 + steps == len(index.ids())
    index.add([f"new {n}" for n in range(5)], points(*range(5)))
    assert len(index) == 305 == len(index.ids())
    server.stop_after = steps
    with pytest.raises(GalleryUnavailableError, match="stopped"):
        index.remove([f"new {n}" for n in range(5)])
    server.stop_after = None
    assert len(index) == 305 - steps == len(index.ids())


def test_a_reader_that_meets_a_removal_looks_again(server, index):
    count = server.reachable
    reader = ServerIndex.open(server)

    def meanwhile():
        server.reachable = count
        index.remove(["5", "6"])
        return count()

    server.reachable = meanwhile
    assert reader.search(points(5.4), 2).ids.tolist() == [["4", "7"]]


def test_a_damaged_record_and_a_later_format_are_refused(server, index):
    row = server.rows[handle_of("3")]
    server.rows[handle_of("3")] = type(row)(row.number, Item("3", None, {}), row.moments[:-1])
    with pytest.raises(GalleryError, match="moments of an item: expected 4 bytes"):
        index.get(["3"])
    server.document = {**server.document, "schema": 99}
    with pytest.raises(GalleryError, match="expected version 1 of the format, got version 99; update howsure"):
        ServerIndex.open(server)
