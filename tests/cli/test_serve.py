"""howsure serve: what it says when it cannot."""

import importlib.util
import socket

import pytest

from howsure import data
from howsure.embedder import Embedder
from howsure.index import LocalIndex


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    embedder = Embedder("lam-fashion", "point", data.InputSpec(8, 8, 1, (0.0,), (1.0,)), dim=2)
    embedder.save(folder / "model")
    about = {"model": str(folder / "model"), "fingerprint": embedder.fingerprint}
    LocalIndex.create(folder / "gallery", about=about).close()
    return folder / "gallery"


def test_a_gallery_that_is_not_there(run, tmp_path):
    done = run("serve", tmp_path / "none", "--no-open")
    assert (done.code, done.out) == (2, "")
    assert "create it first" in done.err


def test_a_port_that_is_taken(run, gallery):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("serve", gallery, "--no-open", "--port", taken.getsockname()[1])
    assert done.code == 2
    assert "in use" in done.err
    assert "--port" in done.err


def test_beyond_this_machine_only_with_a_token(run, gallery):
    done = run("serve", gallery, "--no-open", "--host", "0.0.0.0", "--port", 0)
    assert done.code == 2
    assert "--token" in done.err


def test_without_the_extra(run, gallery, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else there(name))
    done = run("serve", gallery, "--no-open")
    assert done.code == 2
    assert "pip install 'howsure[web]'" in done.err
