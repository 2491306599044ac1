"""The server itself, with patience for slow clients but not without end."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from howsure.web.problems import problem
from howsure.web.settings import Settings

__all__ = ["make_server"]

IDLE = 5  # seconds that a connection may say nothing between requests
CROWD = 2  # times as many connections as are served get a 503; the others are cut off


def make_server(app: FastAPI, settings: Settings, **more: Any) -> uvicorn.Server:
    """A server for this app; `run(sockets=[...])` runs it."""

    class Protocol(PatientProtocol):
        limits = settings

    options: dict[str, Any] = {"log_level": "warning", "server_header": False, "proxy_headers": False, "ws": "none"}
    return uvicorn.Server(uvicorn.Config(app, http=Protocol, timeout_keep_alive=IDLE, **options | more))


class PatientProtocol(H11Protocol):
    """One connection. It must bring the head of a request in time, and take its response in time.

    The body of a request is metered by `Guard`, which can answer it.
    """

    limits = Settings()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        if len(self.connections) > CROWD * self.limits.connections:
            transport.abort()
        elif len(self.connections) > self.limits.connections:
            self.app = _crowded
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._head, self._stuck):
            if timer:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck:
            self._stuck.cancel()

    def _watch(self) -> None:
        """The time runs from the end of one request to the head of the next, however many bytes come meanwhile."""
        between = self.cycle is None or self.cycle.response_complete
        if between and self._head is None:
            self._head = self.loop.call_later(self.limits.header, self.transport.abort)
        elif not between and self._head:
            self._head.cancel()
            self._head = None


async def _crowded(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        response = problem(503, "busy: got too many connections; try again in a moment")
        response.headers["Connection"] = "close"
        await response(scope, receive, send)
