"""The web app in a real browser: one server and one Chromium for all of these tests."""

import asyncio
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from howsure import Gallery
from howsure.web.app import create_app
from howsure.web.serving import make_server
from howsure.web.settings import Settings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60_000  # milliseconds, for a machine with other things to do

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def web_app(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web app on a gallery that these tests may change."""
    gallery = shutil.copytree(made / "gallery", tmp_path_factory.mktemp("browser") / "gallery")
    with Gallery.open(gallery) as opened:
        opened.ask(made / "photos" / "8", audit=1.0)
    listener = socket.create_server(("127.0.0.1", 0))
    server = make_server(create_app(gallery), Settings())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Page, asyncio.AbstractEventLoop]]:
    """A tab of Debian's browser, and the loop through which it is driven."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        yield page, loop
        asyncio.events._set_running_loop(loop)
        browser.close()


@pytest.fixture
def open_page(chromium: tuple[Page, asyncio.AbstractEventLoop], web_app: str) -> Iterator[Open]:
    """Opens a view anew. In the end, every request has stayed on this machine and no script has failed."""
    page, loop = chromium
    # Between tests the loop is set aside, or others in this process could not run theirs.
    asyncio.events._set_running_loop(loop)
    asked: list[str] = []
    failed: list[str] = []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "pageerror": lambda error: failed.append(str(error)),
        "console": lambda message: failed.append(message.text) if "Content Security" in message.text else None,
    }
    for event, listener in listeners.items():
        page.on(event, listener)

    def opened(view: str = "search", *, width: int = 1280, scheme: str = "light") -> Page:
        page.goto("about:blank")  # another # alone would not load the page anew
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{web_app}#/{view}")
        return page

    yield opened
    page.goto("about:blank")
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    asyncio.events._set_running_loop(None)
    local = (urlsplit(web_app).netloc, "")  # nothing for about:, data: and blob:
    assert [url for url in asked if urlsplit(url).netloc not in local] == []
    assert any(url.startswith(web_app) for url in asked)
    assert failed == []


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory, made: Path) -> dict[str, Path]:
    """A picture for each answer, a second one that matches, and a file that is none."""
    folder = tmp_path_factory.mktemp("pictures")
    for name, shade in (("unknown", 0), ("not_sure", 255)):
        Image.new("L", (8, 8), shade).save(folder / f"{name}.png")
    (folder / "bad.png").write_bytes(b"this is no picture")
    photos = {name: next((made / "photos").rglob(f"{name}.png")) for name in ("000", "007")}
    return {"match": photos["007"], "other": photos["000"]} | {
        name: folder / f"{name}.png" for name in ("unknown", "not_sure", "bad")
    }
