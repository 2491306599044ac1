"""The door of the server: who may come in, with how much, in what time; and what every response says to a browser."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from howsure.web.counters import Counters
from howsure.web.problems import RefusedError, problem, problem_from
from howsure.web.settings import Settings, is_loopback

__all__ = ["COOKIE", "Guard"]

COOKIE = "howsure"
OPEN = ("/health",)
SMALL = 100_000  # bytes of a request that does not count as an upload
ASKED = ("/api/", "/metrics")  # only with the token, if there is one; the pages themselves hold no secret
LOG = logging.getLogger("howsure.web")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Checks a request before anything reads it, meters its body, and marks its response."""

    def __init__(self, app: ASGIApp, *, settings: Settings, counters: Counters):
        self._app, self._settings, self._counters = app, settings, counters
        self._uploads = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _mark(MutableHeaders(scope=message), scope["path"])
            await send(message)

        headers = Headers(scope=scope)
        large = _large(headers)
        self._uploads += large
        try:
            self._check(scope, headers)
            if large and self._uploads > self._settings.uploads:
                raise RefusedError(503, "busy", got=f"{self._uploads} uploads at once", fix="try again in a moment")
            await self._app(scope, self._metered(receive), marked)
        except RefusedError as error:
            await problem_from(error)(scope, receive, marked)
        except Exception:
            LOG.exception("%s %s", scope["method"], scope["path"])
            if status:
                raise
            await problem(500, "the server made a mistake; its log says which")(scope, receive, marked)
        finally:
            self._uploads -= large
            route = getattr(scope.get("route"), "path", None) or "other"
            self._counters.count(scope["method"], route, status, seconds=time.perf_counter() - begun)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host, limit = headers.get("host", ""), self._settings.upload
        if self._settings.loopback and not is_loopback(_name(host)):
            # A page elsewhere may have pointed its own name at this machine, to read as if it were this site.
            raise RefusedError(421, "host", expected="this machine", got=repr(host), fix="use 127.0.0.1 or localhost")
        if scope["method"] not in ("GET", "HEAD") and _from_another_site(headers, host):
            raise RefusedError(403, "origin", expected="this site", got=repr(headers.get("origin", "another")))
        if scope["path"].startswith(ASKED) and not self._known(scope, headers):
            raise RefusedError(401, "token", expected="Authorization: Bearer TOKEN", got="none, or another")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > limit:
            raise RefusedError(413, "request", expected=f"at most {limit:,} bytes", got=f"{length[:20]} bytes")

    def _known(self, scope: Scope, headers: Headers) -> bool:
        if self._settings.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = HTTPConnection(scope).cookies.get(COOKIE, "")
        return hmac.compare_digest(given.encode(), self._settings.token.encode())

    def _metered(self, receive: Receive) -> Receive:
        limit, patience = self._settings.upload, self._settings.patience
        until, size, more = time.monotonic() + patience, 0, True

        async def metered() -> Message:
            nonlocal size, more
            if not more:
                return await receive()  # waits for the client to leave
            try:
                message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise HTTPException(408, f"request: expected all of it within {patience:g} s") from None
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
            if size > limit:
                raise HTTPException(413, f"request: expected at most {limit:,} bytes, got more")
            return message

        return metered


def _mark(headers: MutableHeaders, path: str) -> None:
    headers.update(HEADERS)
    # Pages are asked for anew, and answered with "not changed"; answers are nobody else's business.
    headers.setdefault("Cache-Control", "no-store" if path.startswith(ASKED + OPEN) else "no-cache")


def _large(headers: Headers) -> bool:
    length = headers.get("content-length", "")
    return "transfer-encoding" in headers or (length.isdecimal() and int(length[:20]) > SMALL)


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _from_another_site(headers: Headers, host: str) -> bool:
    """Whether a browser says that another site sent the request."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return True
    return headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
