"""What is special about Milvus: its limits, a server that dies, and a cluster that loses a query node."""

import time

import numpy as np
import pytest
import torch

import milvus_processes
from howsure import Gaussian, Point
from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index import connect
from howsure.prior import Prior

pytestmark = pytest.mark.slow

MINUTES = 3  # that a busy machine may take to notice a lost node; an idle one takes half a minute


def embeddings(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Gaussian(torch.randn(count, 8, generator=generator), torch.rand(count, 8, generator=generator))


def same(found, expected):
    return found.ids.tolist() == expected.ids.tolist() and np.array_equal(found.distances, expected.distances)


def wait_until_whole(index):
    """A server that has just started says that it is not ready, not that there is less."""
    deadline = time.monotonic() + 60 * MINUTES
    while True:
        try:
            return len(index)
        except GalleryUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(1)


def test_what_does_not_fit_is_refused(milvus):
    with connect(milvus(), create=True) as index:
        index.add(["nul\0inside"], embeddings(1))
        assert index.ids() == ["nul\0inside"]
        with pytest.raises(GalleryError, match="texts of an item on Milvus: expected up to 65535 bytes"):
            index.add(["x" * 65_536], embeddings(1))
        assert len(index) == 1
    with connect(milvus(), create=True) as index:
        with pytest.raises(GalleryError, match="moments of up to 49151 bytes, got 20004 dimensions and 80000 bytes"):
            index.add(["a"], Point(torch.zeros(1, 20_000)))
        assert len(index) == 0


def test_a_collection_of_another_program_is_left_alone(milvus, milvus_server):
    from pymilvus import MilvusClient

    url = milvus()
    client = MilvusClient(uri=f"http://{milvus_server.address}")
    client.create_collection(url.rpartition("/")[2], dimension=4)
    with pytest.raises(GalleryError, match="expected a collection that howsure made, got another"):
        connect(url, create=True)
    client.close()


def test_an_item_that_is_in_two_segments_counts_once(milvus):
    with connect(milvus(), create=True) as index:
        index.set_prior(Prior(torch.zeros(8), torch.ones(1)))
        index.add([f"{n}" for n in range(300)], embeddings(300))
        for collection in (index._server._items, f"{index._server._items}_{index._server.notes()['shrunk']}"):
            index._server._client.flush(collection)  # seals what is there; what follows is elsewhere
        index.add([f"{n}" for n in range(100, 400)], embeddings(300, seed=1))
        assert len(index) == 400 == len(index.ids()) == len(set(index.ids()))
        found = index.search(embeddings(3, seed=2), 200, by="likelihood", approximate=True)
        assert all(len(set(row)) == 200 for row in found.ids)
        index.remove([f"{n}" for n in range(100, 200)])
        assert len(index) == 300 == len(index.ids())


def test_kill_nine_loses_nothing_acknowledged(milvus, milvus_server):
    url = milvus()
    with connect(url, create=True) as index:
        for step in range(3):
            index.add([f"{step} {n}" for n in range(200)], embeddings(200, seed=step))
        index.remove(["0 0"])
        expected, everything = index.search(embeddings(3, seed=9), 10), index.embedding()
    milvus_server.kill("standalone")
    milvus_server.again()
    with connect(url) as index:
        wait_until_whole(index)
        assert same(index.search(embeddings(3, seed=9), 10), expected)
        ids, found = index.embedding()
        assert ids == everything[0]
        assert torch.equal(found.location, everything[1].location)
        assert len(index) == 599


def test_encrypted_and_for_those_who_may(milvus_server, certificate, tmp_path, monkeypatch):
    key = certificate.with_name("key.pem")
    extra = "  security:\n    authorizationEnabled: true\n    tlsMode: 1\n"
    extra += f"tls:\n  serverPemPath: {certificate}\n  serverKeyPath: {key}\n  caPemPath: {certificate}\n"
    server = milvus_processes.Standalone(tmp_path / "milvus", extra)
    try:
        url = f"milvus://{server.address}/gallery"
        trusted = f"{url}?secure=true&ca={certificate}&name=localhost"
        monkeypatch.setenv("MILVUS_USER", "root")
        monkeypatch.setenv("MILVUS_PASSWORD", "Milvus")  # of a new server
        with connect(trusted, create=True) as index:
            index.add(["a"], embeddings(1))
            assert index.ids() == ["a"]
        for untrusted in (f"{url}?secure=true", f"{url}?secure=true&ca={certificate}&name=elsewhere"):
            with pytest.raises(GalleryUnavailableError, match=r"and the certificate: \?secure=true&ca=FILE"):
                connect(untrusted)
        with pytest.raises(GalleryUnavailableError):
            connect(url)
        monkeypatch.setenv("MILVUS_PASSWORD", "wrong")
        with pytest.raises(GalleryUnavailableError) as error:
            connect(trusted)
        assert "wrong" not in str(error.value)
    finally:
        server.stop()


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    milvus_processes.missing(cluster=True) is not None, reason=str(milvus_processes.missing(cluster=True))
)
def test_a_lost_query_node_is_an_error_and_never_a_smaller_gallery(tmp_path, monkeypatch):
    # Shorter than Milvus takes to notice, so that the client cannot hide the gap by waiting.
    monkeypatch.setattr("howsure.index.remote.milvus.PATIENCE_READING", 10.0)
    cluster = milvus_processes.Cluster(tmp_path / "cluster")
    try:
        with connect(f"milvus://{cluster.address}/gallery", create=True) as index:
            index.add([f"{n}" for n in range(600)], embeddings(600))
            query = embeddings(5, seed=1)
            expected = index.search(query, 150)
            cluster.kill("querynode1")
            errors, answers, start = [], 0, time.monotonic()
            while answers < 5 and time.monotonic() < start + 60 * MINUTES:
                try:
                    assert same(index.search(query, 150), expected)
                    answers += 1
                except GalleryUnavailableError as error:
                    errors.append(str(error))
                    answers = 0
                    time.sleep(1)
            assert errors
            assert answers == 5
            assert len(index.ids()) == 600
            index.add(["after"], embeddings(1, seed=2))
            assert len(index) == 601
    finally:
        cluster.stop()
