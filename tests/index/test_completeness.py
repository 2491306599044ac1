"""A server that loses a part of a gallery, or stops in the middle: no answer is for fewer than all items."""

from collections import Counter
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import torch

from howsure import Gaussian, Point
from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index import RemoteIndex
from howsure.index.items import Item
from howsure.index.remote import likelihood as remote_likelihood
from howsure.index.remote.contract import handle_of
from howsure.prior import Prior


class Memory:
    """A server without transactions, of which a part can be lost; it can also stop within a change."""

    url = "memory://"

    def __init__(self):
        self.document, self.tables = None, {}  # tables by name, None for the items: {handle: (row, key)}
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

    write_notes = create

    def make_room(self, notes, *, width, moments):
        self.tables[None] = {}

    def make_shrunk(self, notes, name, *, width, moments):
        self.tables[name] = {}

    def keep_shrunk(self, name, before):
        self.tables = {None: self.tables[None], name: self.tables[name]}

    @contextmanager
    def changing(self):
        yield

    reading = changing

    @property
    def rows(self):
        return {handle: row for handle, (row, _) in self.tables[None].items()}

    def _seen(self, shrunk=None):
        return [(row, key) for handle, (row, key) in self.tables[shrunk].items() if handle not in self.lost]

    def reachable(self, *, shrunk=None):
        return len(self._seen(shrunk))

    def put(self, rows, keys, *, shrunk=None):
        for row, key in zip(rows, keys, strict=True):
            self._step()
            self.tables[shrunk][row.handle] = row, key

    def delete(self, handles, *, shrunk=None):
        for handle in handles:
            self._step()
            del self.tables[shrunk][handle]

    def fetch(self, handles, *, moments=False):
        return [row for row, _ in self._seen() if row.handle in handles]

    def scan(self, *, moments=False):
        return iter([row for row, _ in self._seen()])

    def sample(self, count):
        return [row.item.id for row, _ in self._seen()][:count]

    def label_counts(self, labels):
        return Counter(row.item.label for row, _ in self._seen())

    def nearest(self, keys, count, *, shrunk=None):
        def hits(key):
            near = sorted(self._seen(shrunk), key=lambda one: ((one[1] - key) ** 2).sum())[:count]
            return [row for row, _ in near]

        return [hits(key) for key in keys], np.full(len(keys), -np.inf)

    def settle(self, count, *, shrunk):
        return False

    def close(self):
        pass


def points(*values):
    return Point(torch.tensor([[float(value)] for value in values]))


@pytest.fixture
def server():
    return Memory()


@pytest.fixture
def index(server):
    index = RemoteIndex.create(server)
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


def embeddings(*values):
    return Gaussian(torch.tensor([[float(value)] for value in values]), torch.ones(len(values), 1))


def likely(index, value, k=1):
    """A search among candidates, as in a gallery too large to be read."""
    return index.search(embeddings(value), k, by="likelihood", approximate=True)


@pytest.fixture
def weighed(server):
    index = RemoteIndex.create(server)
    index.set_prior(Prior(torch.zeros(1), torch.full((1,), 1e4)))
    index.add([f"{n}" for n in range(300)], embeddings(*range(300)), labels=["x"] * 300)
    return index


def test_a_lost_shrunk_mean_is_an_error_and_then_all_is_well(server, weighed):
    items = server.tables[None]
    server.tables[None] = dict(items)  # in reach, while its shrunk mean is not
    (name,) = set(server.tables) - {None}
    gone = server.tables[name].pop(handle_of("7"))
    with pytest.raises(GalleryUnavailableError, match="expected all of its 300 items, got 299 that the server can"):
        likely(weighed, 200)
    assert weighed.search(embeddings(7), 1).ids.tolist() == [["7"]]
    server.tables[name][handle_of("7")] = gone
    assert likely(weighed, 7).ids.tolist() == [["7"]]


@pytest.mark.parametrize("steps", range(0, 12, 3))
def test_a_server_that_stops_within_a_change_answers_for_items_alone(server, weighed, steps):
    for change in (
        lambda: weighed.add([f"new {n}" for n in range(5)], embeddings(*range(400, 405))),
        lambda: weighed.remove([f"{n}" for n in range(5)]),
    ):
        server.stop_after = steps
        with suppress(GalleryUnavailableError):
            change()
        server.stop_after = None
        items = {float(row.item.id.removeprefix("new ")) + 400 * row.item.id.startswith("new") for row in server.scan()}
        for value in (0, 4, 400, 404):
            best = min(items, key=lambda item: abs(item - value))
            assert likely(weighed, value).distances[0, 0] == pytest.approx((2 + (best - value) ** 2) ** 0.5)
    weighed.add(["later"], embeddings(1000))
    assert likely(weighed, 1000, k=3).ids[0, 0] == "later"
    assert likely(weighed, 150).ids.tolist() == [["150"]]


def test_recall_is_estimated_again_as_the_gallery_grows(server, weighed, monkeypatch):
    monkeypatch.setattr(remote_likelihood, "SMALL", 100)
    monkeypatch.setattr(remote_likelihood, "COUNTS", (12, 22))  # about as many as are asked for, so some are missed
    generator = torch.Generator().manual_seed(0)
    for count, measured in ((20, 320), (100, 320), (100, 520)):
        scale = 10 ** (4 * torch.rand(count, 1, generator=generator))
        many = Gaussian(100 * torch.randn(count, 1, generator=generator), scale)
        weighed.add([f"{len(weighed)} {n}" for n in range(count)], many)
        weighed.compact()
        assert server.document["recall"]["count"] == measured
    found = likely(weighed, 3)
    assert (found.exact, found.candidates) == (False, 22)
    assert 0.2 < found.recall < 0.95
    assert weighed.search(embeddings(3), 1, by="likelihood", approximate=False).recall is None  # it is exact
    assert weighed.search(embeddings(3), 1).recall is None
    weighed.set_prior(Prior(torch.zeros(1), torch.ones(1)))
    assert likely(weighed, 3).recall is None  # nobody knows yet


def test_a_prior_that_is_replaced_meanwhile_is_no_trouble(server, weighed):
    find, reader = server.nearest, RemoteIndex.open(server)

    def meanwhile(keys, count, *, shrunk=None):
        server.nearest = find
        weighed.set_prior(Prior(torch.zeros(1), torch.ones(1)))
        if shrunk not in server.tables:
            raise GalleryUnavailableError("memory: nothing of this name")
        return find(keys, count, shrunk=shrunk)

    server.nearest = meanwhile
    found = likely(reader, 3)
    np.testing.assert_allclose(found.likelihoods, likely(weighed, 3).likelihoods)
    assert len(server.tables) == 2


def test_a_reader_that_meets_a_removal_looks_again(server, index):
    count = server.reachable
    reader = RemoteIndex.open(server)

    def meanwhile(*, shrunk=None):
        server.reachable = count
        index.remove(["5", "6"])
        return count()

    server.reachable = meanwhile
    assert reader.search(points(5.4), 2).ids.tolist() == [["4", "7"]]


def test_a_damaged_record_and_a_later_format_are_refused(server, index):
    row, key = server.tables[None][handle_of("3")]
    server.tables[None][handle_of("3")] = type(row)(row.number, Item("3", None, {}), row.moments[:-1]), key
    with pytest.raises(GalleryError, match="moments of an item: expected 4 bytes"):
        index.get(["3"])
    server.document = {**server.document, "schema": 99}
    with pytest.raises(GalleryError, match="expected version 2 of the format, or an older one, got version 99; update"):
        RemoteIndex.open(server)
