"""howsure serve: a local web app over a gallery."""

from __future__ import annotations

import importlib.util
import os
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import say
from howsure.errors import HowsureError, InputError

WAITING = 128  # connections that the system holds until the server takes them


def serve(
    gallery: Annotated[
        str, typer.Argument(metavar="GALLERY", help="A gallery made by howsure index: a path or a URL.")
    ],
    model: Annotated[Path | None, typer.Option("-m", "--model", help="The model, if it has moved.")] = None,
    host: Annotated[str, typer.Option(help="Where to listen; anything but this machine needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free.", min=0, max=65535)] = 8765,
    token: Annotated[
        str | None, typer.Option(envvar="HOWSURE_TOKEN", help="What a client has to know; 16 characters or more.")
    ] = None,
    audit: Annotated[
        float,
        typer.Option(help="Draw each picture that is searched with this probability, to be labelled.", min=0, max=1),
    ] = 0.0,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
) -> None:
    """Open a web app on a gallery: search, compare, look through it, in a browser on this machine.

    Nothing leaves this machine. The API is at /api/v1/, described in /api/v1/openapi.json.
    """
    _require_web()
    from howsure.web.app import create_app
    from howsure.web.serving import make_server
    from howsure.web.settings import Settings

    settings = Settings(host=host, token=token, model=model, audit=audit)
    app = create_app(gallery, settings)
    with _listening(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{listener.getsockname()[1]}/"
        say(f"{gallery} is at {url}   (stop with Ctrl+C)")
        if browser:
            _open(url, token)
        make_server(app, settings).run(sockets=[listener])


def _require_web() -> None:
    for package in ("fastapi", "uvicorn", "python_multipart"):
        if importlib.util.find_spec(package) is None:
            raise HowsureError(f"the web app needs {package}", fix="pip install 'howsure[web]'")


def _listening(host: str, port: int) -> socket.socket:
    """Bound before anything is printed or opened, so that a port that is taken is one clear line."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(WAITING)
    except OSError as error:
        if listener:
            listener.close()
        raise InputError(
            f"{host}:{port}",
            expected="an address that is free",
            got=(error.strerror or str(error)).lower(),
            fix="choose another with --port, or --port 0 for any",
        ) from error
    return listener


def _open(url: str, token: str | None) -> None:
    import webbrowser

    # After the #, so that the token is in no log and no request.
    where = f"{url}#/search?token={token}" if token else url
    timer = threading.Timer(0.5, webbrowser.open, [where])
    timer.daemon = True
    timer.start()
