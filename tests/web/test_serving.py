"""Clients that take their time, on real sockets: they are answered or cut off, and others are served meanwhile."""

import socket
import time
from contextlib import ExitStack, suppress

import pytest
from fastapi import FastAPI, Response

from howsure.web.app import create_app
from howsure.web.settings import Settings
from web.listening import listening

HEAD = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def ask(port: int, head: str = HEAD) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        with suppress(ConnectionError):
            client.sendall(head.encode())
        return until_closed(client).decode()


def until_closed(client: socket.socket) -> bytes:
    content = b""
    with suppress(ConnectionError):
        while part := client.recv(1 << 16):
            content += part
    return content


def drip(client: socket.socket, until: float) -> None:
    while time.monotonic() < until:
        client.sendall(b"X: y\r\n")
        time.sleep(0.05)


def post(length: int) -> bytes:
    head = f"POST /api/v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n"
    return f"{head}Content-Type: multipart/form-data; boundary=b\r\nConnection: close\r\n\r\n".encode()


@pytest.fixture(scope="module")
def port(made):
    settings = Settings(header=3.0, patience=3.0, connections=3, uploads=2)
    with listening(create_app(made / "gallery", settings), settings) as found:
        yield found


def test_a_head_that_never_ends_is_cut_off_however_it_drips(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"GET /health HTTP/1.1\r\n")
        began = time.monotonic()
        with pytest.raises(ConnectionError):
            drip(client, until=began + 60)
        assert time.monotonic() - began < 50


def test_the_silent_do_not_keep_others_out(port):
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(3)]
        refused = ask(port)
        assert refused.startswith("HTTP/1.1 503")
        assert "retry-after: 2" in refused.lower()
        assert "application/problem+json" in refused
        assert [until_closed(client) for client in silent] == [b"", b"", b""]
        assert ask(port).startswith("HTTP/1.1 200")


def test_a_crowd_beyond_all_measure_is_not_even_heard(port):
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        assert ask(port) == ""
    for _ in range(100):
        if ask(port).startswith("HTTP/1.1 200"):
            return
        time.sleep(0.1)
    pytest.fail("the crowd has gone, and still nobody is served")


def test_a_body_that_never_ends_is_answered_and_cut_off(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(post(5000) + b"--b\r\n")
        assert until_closed(client).startswith(b"HTTP/1.1 408")


def test_between_requests_a_connection_may_not_dawdle(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(HEAD.replace("Connection: close\r\n", "").encode() + b"GET /heal")
        assert until_closed(client).count(b"HTTP/1.1") == 1


def test_too_many_uploads_at_once_are_sent_away(port):
    with ExitStack() as stack:
        for _ in range(2):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            client.sendall(post(200_000) + b"--b\r\n")
        time.sleep(0.2)
        refused = ask(port, post(200_000).decode())
    assert refused.startswith("HTTP/1.1 503")
    assert "retry-after: 2" in refused.lower()
    assert "uploads at once" in refused


def test_who_does_not_take_the_response_is_cut_off():
    app, size = FastAPI(), 1 << 26
    settings = Settings(patience=0.5)

    @app.get("/much")
    async def much() -> Response:
        return Response(bytes(size))

    with listening(app, settings) as port, socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(HEAD.replace("/health", "/much").encode())
        time.sleep(2)
        assert len(until_closed(client)) < size
