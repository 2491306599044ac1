"""An app on a socket of its own, as `howsure serve` runs it."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI

from howsure.web.serving import make_server
from howsure.web.settings import Settings


@contextmanager
def listening(app: FastAPI, settings: Settings) -> Iterator[int]:
    """The port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = make_server(app, settings, log_level="error")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()
