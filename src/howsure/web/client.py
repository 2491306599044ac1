"""The API from Python, with the standard library alone."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from howsure.errors import GalleryUnavailableError, HowsureError, InputError

__all__ = ["Client"]


class Client:
    """Asks a server that `howsure serve` runs.

        client = Client("http://127.0.0.1:8765")
        client.search("new.jpg")["results"][0]["answer"]["words"]

    Replies are the JSON of the API. What the server refuses is a `HowsureError` with its message.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0):
        if not url.startswith(("http://", "https://")):
            raise InputError("url", expected="http://HOST:PORT", got=repr(url))
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout
        self._opener = build_opener(ProxyHandler({}))  # a proxy must not see the token

    def search(self, *pictures: str | Path | bytes, k: int = 5, trial: bool = False) -> dict[str, Any]:
        """One result a picture; pictures are paths or the content of files.

        `uncertainty` comes with its `split` into `picture` and `model`, None where the method cannot tell. A `trial`,
        such as a picture that was made worse on purpose, is not counted where drift is watched.
        """
        fields = {"k": str(k), "trial": str(trial).lower()}
        return self._ask(*_form("search", [("pictures", one) for one in pictures], fields))

    def search_items(self, ids: Sequence[str], *, k: int = 5) -> dict[str, Any]:
        """The same with items of the gallery as queries."""
        return self._send("POST", "search/precomputed", {"ids": list(ids), "k": k})

    def verify(self, a: str | Path | bytes, b: str | Path | bytes) -> dict[str, Any]:
        """Whether two pictures show the same."""
        return self._ask(*_form("verify", [("a", a), ("b", b)], {}))

    def items(self, **query: Any) -> dict[str, Any]:
        """Some items: `sort`, `descending`, `offset`, `limit`, and of which `label`, with which `text` in the id.

        `least` and `most` are ranks of uncertainty; `probability_from` and `probability_to` are about the label.
        """
        fields = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
        return self._send("GET", f"items?{urlencode(fields)}")

    def suspects(self, *, limit: int = 50) -> dict[str, Any]:
        """Pictures that are there twice, and labels that the neighbours contradict, the surest first."""
        return self._send("GET", f"suspects?limit={limit}")

    def best(self, label: str, *, count: int = 5) -> dict[str, Any]:
        """The pictures of an identity that show it best, and why."""
        return self._send("GET", f"identities/{quote(label, safe='')}/best?count={count}")

    def map(self) -> dict[str, Any]:
        """Every item in a plane."""
        return self._send("GET", "map")

    def item(self, name: str) -> dict[str, Any]:
        """One item."""
        return self._send("GET", f"items/{quote(name, safe='')}")

    def add(self, *pictures: str | Path | bytes, label: str | None = None) -> dict[str, Any]:
        """Add pictures to the gallery; they are on disk when this returns."""
        return self._ask(*_form("items", [("pictures", one) for one in pictures], {"label": label} if label else {}))

    def add_many(self, *pictures: str | Path | bytes, label: str | None = None) -> Iterator[dict[str, Any]]:
        """Add pictures one by one; as soon as each is on disk, or cannot be: `done`, `total`, `id` or `problem`."""
        fields = {"label": label} if label else {}
        with self._open(*_form("items/bulk", [("pictures", one) for one in pictures], fields)) as lines:
            for line in lines:
                yield dict(json.loads(line))

    def remove(self, name: str) -> str:
        """Remove an item; the token for `undo`."""
        return str(self._send("DELETE", f"items/{quote(name, safe='')}")["undo"])

    def undo(self, token: str) -> dict[str, Any]:
        """Bring back an item that was removed."""
        return self._send("POST", "undo", {"undo": token})

    def quality(self) -> dict[str, Any]:
        """Reliability, risk and coverage, the certificate, drift."""
        return self._send("GET", "quality")

    def feedback(self, query: str, item: str, *, same: bool, label: str | None = None) -> dict[str, Any]:
        """Say whether a query, by the name that `search` gave it, shows the same as an item."""
        return self._send("POST", "feedback", {"query": query, "item": item, "same": same, "label": label})

    def audit(self) -> dict[str, Any]:
        """The queries that were drawn by lot and wait for a verdict, in order."""
        return self._send("GET", "audit")

    def judge(
        self, number: str, label: str | None = None, *, unknown: bool = False, unclear: bool = False
    ) -> dict[str, Any]:
        """Say what a drawn query shows: a label, something that is not in the gallery, or that nobody can tell."""
        given = {"label": label, "unknown": unknown, "unclear": unclear}
        return self._send("POST", f"audit/{quote(number, safe='')}", given)

    def _send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        return self._ask(method, path, content, "application/json")

    def _ask(self, method: str, path: str, body: bytes | None, content_type: str) -> dict[str, Any]:
        with self._open(method, path, body, content_type) as reply:
            return dict(json.load(reply))

    @contextmanager
    def _open(self, method: str, path: str, body: bytes | None, content_type: str) -> Iterator[Any]:
        """A reply that can be read; what goes wrong meanwhile is one of our errors."""
        request = Request(f"{self._url}/api/v1/{path}", data=body, method=method)
        if body is not None:
            request.add_header("Content-Type", content_type)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout) as reply:
                yield reply
        except HTTPError as error:
            raise _refusal(error) from error
        except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise GalleryUnavailableError(
                f"server {self._url}", expected="an answer", got=str(reason), fix="is howsure serve running?"
            ) from error


def _form(
    path: str, pictures: Sequence[tuple[str, str | Path | bytes]], fields: Mapping[str, str]
) -> tuple[str, str, bytes, str]:
    """What to send where: method, path, body and its type."""
    if not pictures:
        raise InputError("pictures", expected="at least one", got="none")
    edge = secrets.token_hex(16)
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, picture in pictures:
        filename, content = ("picture", picture) if isinstance(picture, bytes) else _file(Path(picture))
        head = f'--{edge}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    parts.append(f"--{edge}--\r\n".encode())
    return "POST", path, b"".join(parts), f"multipart/form-data; boundary={edge}"


def _file(path: Path) -> tuple[str, bytes]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"picture {path}", expected="a file", got=(error.strerror or str(error)).lower()) from error
    return path.name.replace('"', "_").replace("\r", "_").replace("\n", "_"), content


def _refusal(error: HTTPError) -> HowsureError:
    try:
        detail = str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the server answered {error.code}"
    return GalleryUnavailableError(detail) if error.code == 503 else InputError(detail)
