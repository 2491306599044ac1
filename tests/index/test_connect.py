"""Which URL leads where, and which errors the others give."""

import importlib.util

import pytest

from howsure.errors import GalleryError, GalleryUnavailableError, HowsureError, InputError
from howsure.index import Index, connect

pytest.importorskip("psycopg", reason="needs the package psycopg")


def test_a_path_is_a_directory(tmp_path):
    for path in (tmp_path / "one", str(tmp_path / "two")):
        with connect(path, create=True, about={"x": 1}) as index:
            assert isinstance(index, Index)
        with connect(path, create=True, about={"x": 2}) as index:
            assert index.about == {"x": 1}
            index.describe({"x": 3})  # `create` opens for writing, also what is there
        with connect(path) as index:
            assert index.about == {"x": 3}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("milvsu://h/c", r"expected a path, postgresql://.*, got milvsu://; did you mean milvus://\?"),
        ("s3://bucket/gallery", "got s3://; a path needs no scheme"),
        ("postgresql://h/database", r"expected postgresql://HOST/DATABASE/COLLECTION, got /database after the host"),
        ("postgresql://h//c", "expected postgresql://HOST/DATABASE/COLLECTION"),
        ("postgresql://h/d/c;drop", "expected a collection of letters, digits and underscores"),
        ("postgresql://h/d/" + "c" * 64, "at most 63"),
        ("postgresql://h/d/c?sslmod=require", "expected the options secure, ca, host, sslmode, sslrootcert, got"),
        ("postgresql://h/d/c?secure=yes", "expected secure=true or secure=false, got secure=yes"),
        ("postgresql://h/d/c?ca=x.pem", "expected secure=true with ca, got ca alone; add &secure=true"),
        ("postgresql://h/d/c?secure=true&ca=x.pem", "expected a file with certificates as ca, got x.pem"),
        ("postgresql://h/d/c?sslrootcert=x.pem", "expected a file with certificates as sslrootcert, got x.pem"),
        ("postgresql://h/d/c?secure=true&sslmode=allow", "expected secure or sslmode, got both; leave sslmode out"),
        ("postgresql://h:99999/d/c", "expected a port from 0 to 65535"),
    ],
)
def test_urls_that_lead_nowhere(url, message):
    with pytest.raises(InputError, match=message):
        connect(url)


def test_milvus_checks_the_options_of_encryption_too():
    pytest.importorskip("pymilvus", reason="needs the package pymilvus")
    for options, message in {
        "secure=yes": "expected secure=true or secure=false, got secure=yes",
        "ca=x.pem": "expected secure=true with ca, got ca alone; add &secure=true",
        "name=x": "expected secure=true with name, got name alone",
        "secure=true&ca=x.pem": "expected a file with certificates as ca, got x.pem",
    }.items():
        with pytest.raises(InputError, match=message):
            connect(f"milvus://h/c?{options}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:secret@host/d/c",
        "postgresql://anna@host/d/c",
        "postgresql://host/d/c?password=secret",
        "milvus://root:secret@host/c",
        "milvus://host/c?token=root:secret",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    with pytest.raises(
        InputError, match=r"expected a URL without user and password.*set PGUSER and PGPASSWORD"
    ) as error:
        connect(url)
    assert "secret" not in str(error.value)
    assert "anna" not in str(error.value)


@pytest.mark.parametrize(("url", "extra"), [("postgresql://h/d/c", "postgres"), ("milvus://h/c", "milvus")])
def test_a_missing_client_is_named_with_its_extra(url, extra, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GalleryError, match=rf"pip install 'howsure\[{extra}\]'"):
        connect(url)


def test_a_server_that_is_not_there_is_an_error_of_ours(tmp_path):
    with pytest.raises(GalleryUnavailableError, match=r"expected an answer of the server, got .*; check that it runs"):
        connect(f"postgresql:///d/c?host={tmp_path}")
    with pytest.raises(HowsureError):
        connect("postgresql://127.0.0.1:1/d/c", create=True)
