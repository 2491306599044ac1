"""What is special about PostgreSQL: transactions, writers side by side, a server that dies, an approximate index."""

import os
import signal
import socket
import struct
import subprocess
import threading
import time

import numpy as np
import pytest
import torch

from howsure import Gaussian, Point
from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index import LocalIndex, connect
from howsure.prior import Prior

postgres_engine = pytest.importorskip("howsure.index.remote.postgres", reason="needs the package psycopg")


def embeddings(count, seed=0, dim=16):
    generator = torch.Generator().manual_seed(seed)
    return Gaussian(torch.randn(count, dim, generator=generator), torch.rand(count, dim, generator=generator))


def names(count, prefix=""):
    return [f"{prefix}{n}" for n in range(count)]


def test_an_index_is_built_for_large_galleries_and_is_not_called_exact(postgres, monkeypatch, tmp_path):
    monkeypatch.setattr(postgres_engine, "INDEXED", 1500)
    url, query = postgres(), embeddings(5, seed=1)
    with LocalIndex.create(tmp_path / "twin") as twin, connect(url, create=True) as index:
        for gallery in (twin, index):
            gallery.add(names(1000), embeddings(1000))
        index.compact()
        found, expected = index.search(query, 10), twin.search(query, 10)
        assert found.exact
        assert found.ids.tolist() == expected.ids.tolist()
        for gallery in (twin, index):
            gallery.add(names(1000, "more "), embeddings(1000, seed=2))
        index.compact()
        found, expected = index.search(query, 10), twin.search(query, 10)
        assert not found.exact
        assert found.candidates == 200
        hits = [len({*a} & {*b}) for a, b in zip(found.ids, expected.ids, strict=True)]
        assert np.mean(hits) >= 9.5
        assert index.search(query[:1], 1200).exact  # more than the index can walk: a scan
        index._server._do("DROP INDEX {schema}.nearest")
        assert index.search(query, 10).ids.tolist() == expected.ids.tolist()


def test_shrunk_means_have_an_index_of_their_own(postgres, monkeypatch):
    monkeypatch.setattr(postgres_engine, "INDEXED", 600)
    monkeypatch.setattr(postgres_engine, "MOST", 220)
    query, options = embeddings(5, seed=1), {"by": "likelihood", "approximate": True}
    with connect(postgres(), create=True) as index:
        index.add(names(600), embeddings(600))
        for variance in (3.0, 2.0, 1.0):
            index.set_prior(Prior(torch.zeros(16), torch.full((1,), variance)))
        wanted = index.search(query, 10, by="likelihood")
        scanned = index.search(query, 10, **options)
        index.compact()
        found = index.search(query, 10, **options)
        assert wanted.exact
        for matches in (scanned, found):
            assert (matches.exact, matches.candidates) == (False, 200)
            hits = [len({*a} & {*b}) for a, b in zip(matches.ids, wanted.ids, strict=True)]
            assert np.mean(hits) >= 9
        assert index.search(query, 120, **options).candidates == 240  # more than the index can walk: a scan
        tables = index._server._all("SELECT tablename FROM pg_tables WHERE schemaname = %s", [index._server._schema])
        assert len(tables) == 4  # notes, items, shrunk means, and those before them
        index.remove(names(500))
        assert index.search(query, 10, **options).exact
        table = f"shrunk_{index._server.notes()['shrunk']}"
        assert index._server._all("SELECT count(*) FROM {table}", table=table) == [(100,)]


def test_a_change_is_whole_or_absent(postgres, monkeypatch):
    with connect(postgres(), create=True) as index:
        index.add(names(3), embeddings(3))
        with pytest.raises(GalleryError, match="expected no character 0"):
            index.add(["fine", "nul\0inside"], embeddings(2))

        def fail(notes):
            raise KeyboardInterrupt

        monkeypatch.setattr(index._server, "write_notes", fail)
        with pytest.raises(KeyboardInterrupt):
            index.add(["0", "new"], embeddings(2, seed=1))
        with pytest.raises(KeyboardInterrupt):
            index.remove(["1"])
        monkeypatch.undo()
        assert index.ids() == names(3)
        assert torch.equal(index.get(["0"]).location, embeddings(3).location[:1])


def test_a_scan_holds_a_few_rows_at_a_time(postgres, monkeypatch):
    monkeypatch.setattr(postgres_engine, "ROWS", 8)
    with connect(postgres(), create=True) as index:
        index.add(names(100), embeddings(100))
        server = index._server
        with server.reading():
            rows = server.scan(moments=True)
            next(rows)
            assert server._all("SELECT name FROM pg_cursors WHERE name = 'scan'") == [("scan",)]
            assert server._all("FETCH FORWARD 1 FROM scan")[0][1] == "8"  # what was not asked for is on the server
            assert len(list(rows)) == 98
        assert index.ids() == names(100)


def test_writers_take_turns(postgres):
    url, trouble = postgres(), []
    connect(url, create=True).close()

    def write(who):
        try:
            with connect(url, write=True) as index:
                for step in range(10):
                    index.add([f"{who} {step}", "shared"], embeddings(2, seed=step))
                index.remove([f"{who} 0"])
        except Exception as error:
            trouble.append(error)

    threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    with connect(url) as index:
        assert len(index) == len(index.ids()) == 3 * 9 + 1


def start_again(server):
    for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):  # where nobody reaps it, the dead process looks alive
        (server.pgdata / lock).unlink()
    options = ["-D", server.pgdata, "-w", "-l", server.log, "-o", f'-h "" -k {server.pgdata}']
    for _ in range(20):  # its children take a moment to notice
        done = subprocess.run([server.bin_path / "pg_ctl", *options, "start"], user=server.system_user)
        if done.returncode == 0:
            return
        time.sleep(0.5)
    raise RuntimeError(server.log.read_text())


def test_kill_nine_loses_nothing_acknowledged(postgres, postgres_server):
    url = postgres()
    with connect(url, create=True) as index:
        index.add(names(100), embeddings(100))
        index.remove(["0"])
        expected = index.search(embeddings(1, seed=3), 5)
        os.kill(postgres_server.get_pid(), signal.SIGKILL)
        with pytest.raises(GalleryUnavailableError, match="expected an answer of the server"):
            _ask_for(60, index)  # it may answer for a moment
        start_again(postgres_server)
        assert index.ids() == names(100)[1:]  # on a new connection
        assert index.search(embeddings(1, seed=3), 5).ids.tolist() == expected.ids.tolist()


def _ask_for(seconds, index):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        len(index)


def test_what_belongs_to_others_is_left_alone(postgres):
    url = postgres()
    with connect(postgres(), create=True) as index:
        index._server._do(f"CREATE SCHEMA {url.partition('?')[0].rpartition('/')[2]}")
    with pytest.raises(GalleryError, match=r"expected a new collection, got a schema gallery[0-9]+ with other things"):
        connect(url, create=True)
    with connect(postgres(), create=True) as index, pytest.raises(GalleryError, match="keys of up to 16000 dimensions"):
        index.add(["wide"], Point(torch.zeros(1, 16_000)))


def test_an_unencrypted_connection_is_refused_if_the_url_says_so():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                asked.append(connection.recv(8))
                connection.sendall(b"N")  # what a server without encryption says
                connection.recv(1)

        asked = []
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(GalleryUnavailableError, match="does not support SSL"):
            connect(f"postgresql://127.0.0.1:{server.getsockname()[1]}/d/c?sslmode=require")
        thread.join()
    assert asked == [struct.pack(">ii", 8, 80877103)]  # the request for encryption comes first, and nothing after


def test_encrypted_and_only_with_whom_we_trust(encrypted_postgres, certificate, monkeypatch, postgres):
    collection = postgres().partition("?")[0].rpartition("/")[2]
    address, refused = (
        f"postgresql://localhost:{encrypted_postgres}/postgres/{collection}",
        "certificate that is trusted",
    )
    with connect(f"{address}?secure=true&ca={certificate}", create=True) as index:
        index.add(["a"], embeddings(1))
        assert index._server._connection().pgconn.ssl_in_use
    with connect(f"{address}?sslmode=verify-full&sslrootcert={certificate}") as index:
        assert index.ids() == ["a"]
    for untrusted in (f"{address}?secure=true", f"{address}?sslmode=verify-full&sslrootcert=system"):
        with pytest.raises(GalleryUnavailableError, match=rf"{refused}.*name the certificate.*PGSSLROOTCERT") as error:
            connect(untrusted)
    other_name = f"{address.replace('localhost', '127.0.0.1')}?secure=true&ca={certificate}"
    with pytest.raises(GalleryUnavailableError, match=rf"{refused}.*does not match host name"):
        connect(other_name)
    with pytest.raises(GalleryUnavailableError, match="expected an answer of the server"):
        connect(f"{address}?sslmode=disable")
    with pytest.raises(GalleryError, match="expected an encrypted connection, got a socket; leave secure=true out"):
        connect(f"{postgres()}&secure=true")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(certificate))
    for trusted in (address, f"{address}?secure=true"):
        with connect(trusted) as index:
            assert index.ids() == ["a"]
    monkeypatch.setenv("PGUSER", "nobody")
    monkeypatch.setenv("PGPASSWORD", "secret")
    with pytest.raises(GalleryUnavailableError, match="check that it runs, and PGUSER, PGPASSWORD") as error:
        connect(address)
    assert "secret" not in str(error.value)
