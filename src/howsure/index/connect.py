"""A gallery by its URL: a path, a PostgreSQL server or a Milvus server.

    gallery, ./gallery, /data/gallery                        a directory
    postgresql://HOST[:PORT]/DATABASE/COLLECTION             PostgreSQL with pgvector
    milvus://HOST[:PORT]/COLLECTION                          Milvus, standalone or a cluster

Both take `?secure=true`: encrypt, and check who answers; with `&ca=FILE`, by a certificate that the system does not
trust. PostgreSQL also takes libpq's own `?sslmode=` and `?sslrootcert=`, and `?host=/run/postgresql` for a socket.
Milvus takes `&name=SERVER`, the name in its certificate if it is another, and `?replicas=2`, which keeps a new gallery
in the memory of two query nodes. Users, passwords and tokens come from the environment alone: PGUSER, PGPASSWORD and
the other variables of libpq; MILVUS_USER and MILVUS_PASSWORD, or MILVUS_TOKEN.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from howsure.errors import GalleryError, InputError
from howsure.index.index import Index
from howsure.index.local.index import LocalIndex
from howsure.index.local.store import FILE
from howsure.index.remote.contract import Address, Server
from howsure.index.remote.index import RemoteIndex

# Also a PostgreSQL schema and a Milvus collection without quotes; short enough for both.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def connect(
    url: str | Path, *, write: bool = False, create: bool = False, about: Mapping[str, Any] | None = None
) -> Index:
    """An existing gallery, wherever it is; with `create`, a new one if there is none, open for writing either way.

    `about` is kept with a new gallery.
    """
    scheme = _scheme(url)
    if scheme is None:
        path = Path(url)
        new = create and not (path / FILE).exists()
        return LocalIndex.create(path, about=about) if new else LocalIndex.open(path, write=write or create)
    server = _SERVERS[scheme](_address(str(url)))
    try:
        if create and server.notes() is None:
            return RemoteIndex.create(server, about=about)
        return RemoteIndex.open(server, write=write or create)
    except BaseException:
        server.close()
        raise


def _postgres(address: Address) -> Server:
    _require("psycopg", "postgres")
    from howsure.index.remote.postgres import Postgres

    _check(address, path=("DATABASE", "COLLECTION"), options=("secure", "ca", "host", "sslmode", "sslrootcert"))
    return Postgres(address)


def _milvus(address: Address) -> Server:
    _require("pymilvus", "milvus")
    from howsure.index.remote.milvus import Milvus

    _check(address, path=("COLLECTION",), options=("secure", "ca", "name", "replicas"))
    if not address.options.get("replicas", "1").isdecimal():
        raise InputError(f"gallery {address.url}", expected="a number of replicas", got=address.options["replicas"])
    return Milvus(address)


_SERVERS: dict[str, Callable[[Address], Server]] = {
    "postgresql": _postgres,
    "postgres": _postgres,
    "milvus": _milvus,
}


def _scheme(url: str | Path) -> str | None:
    scheme, found, _ = str(url).partition("://")
    if not found:
        return None
    if scheme not in _SERVERS:
        close = difflib.get_close_matches(scheme, list(_SERVERS), 1)
        raise InputError(
            f"gallery {url}",
            expected="a path, postgresql://HOST/DATABASE/COLLECTION or milvus://HOST/COLLECTION",
            got=f"{scheme}://",
            fix=f"did you mean {close[0]}://?" if close else "a path needs no scheme",
        )
    return scheme


def _address(url: str) -> Address:
    parts = urlsplit(url)
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if "@" in parts.netloc or "password" in parts.query.lower() or "token" in parts.query.lower():
        raise InputError(
            f"gallery {shown.partition('?')[0]}",
            expected="a URL without user and password",
            got="one with",
            fix="URLs end up in logs, histories and process lists; set PGUSER and PGPASSWORD, or MILVUS_USER and "
            "MILVUS_PASSWORD or MILVUS_TOKEN",
        )
    try:
        port = parts.port
    except ValueError as error:
        raise InputError(f"gallery {url}", expected="a port from 0 to 65535", got=str(error)) from error
    path = tuple(unquote(part) for part in parts.path.strip("/").split("/"))
    return Address(url, parts.hostname or "", port, path, dict(parse_qsl(parts.query, keep_blank_values=True)))


def _check(address: Address, *, path: tuple[str, ...], options: tuple[str, ...]) -> None:
    form = f"{address.url.partition('://')[0]}://HOST/{'/'.join(path)}"
    if len(address.path) != len(path) or not all(address.path):
        raise InputError(f"gallery {address.url}", expected=form, got=f"/{'/'.join(address.path)} after the host")
    if not NAME.fullmatch(address.path[-1]):
        raise InputError(
            f"gallery {address.url}",
            expected="a collection of letters, digits and underscores, at most 63",
            got=repr(address.path[-1]),
        )
    for option in address.options:
        if option not in options:
            raise InputError(f"gallery {address.url}", expected=f"the options {', '.join(options)}", got=option)
    _check_trust(address)


def _check_trust(address: Address) -> None:
    """Nothing that was meant to encrypt may be without effect."""
    options, gallery = address.options, f"gallery {address.url}"
    if (secure := options.get("secure", "false")) not in ("true", "false"):
        raise InputError(gallery, expected="secure=true or secure=false", got=f"secure={secure}")
    for option in ("ca", "name"):
        if option in options and secure == "false":
            raise InputError(
                gallery, expected=f"secure=true with {option}", got=f"{option} alone", fix="add &secure=true"
            )
    for option in ("sslmode", "sslrootcert"):
        if option in options and "secure" in options:
            raise InputError(gallery, expected=f"secure or {option}", got="both", fix=f"leave {option} out")
    for option in ("ca", "sslrootcert"):
        file = options.get(option, "system")
        if file != "system" and not Path(file).is_file():
            raise InputError(gallery, expected=f"a file with certificates as {option}", got=file)


def _require(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise GalleryError(
            f"a gallery on {extra}",
            expected=f"the package {package}",
            got="none",
            fix=f"pip install 'howsure[{extra}]'",
        )
