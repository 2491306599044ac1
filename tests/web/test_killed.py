"""A server that is killed while pictures are being added: nothing that it acknowledged is lost."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

import howsure
from howsure.errors import HowsureError
from web.browser import Browser, as_png, uploads


@contextmanager
def serving(gallery: Path) -> Iterator[tuple["subprocess.Popen[str]", howsure.Client]]:
    """The command in a process of its own."""
    words = [sys.executable, "-m", "howsure", "serve", str(gallery), "--no-open", "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + process.stderr.read()
            yield process, howsure.Client(found[0], timeout=120)
        finally:
            process.kill()


def picture(red: int, green: int) -> bytes:
    return as_png(Image.new("RGB", (8, 8), (red, green, 0)))


def test_what_was_acknowledged_survives_a_kill_and_a_restart(own: Path):
    kept: dict[str, str] = {}
    enough = threading.Event()

    def acknowledged(name: str, label: str) -> None:
        kept[name] = label
        if len(kept) >= 10:
            enough.set()

    def one_by_one(client: howsure.Client) -> None:
        for shade in range(256):
            try:
                (item,) = client.add(picture(shade, 0), label=str(shade))["items"]
            except HowsureError:  # the server is gone
                return
            acknowledged(item["id"], str(shade))

    def many(client: howsure.Client) -> None:
        try:
            for step in client.add_many(*(picture(shade, 1) for shade in range(256)), label="many"):
                acknowledged(step["id"], "many")
        except HowsureError:
            return

    with serving(own) as (process, client):
        adding = [threading.Thread(target=way, args=[client]) for way in (one_by_one, many)]
        for thread in adding:
            thread.start()
        assert enough.wait(200)
        process.kill()  # in the middle of one more, very likely
        for thread in adding:
            thread.join(120)
    assert 10 <= len(kept) < 512
    assert "many" in kept.values()
    with Browser(own) as browser:  # a process of its own was there to be killed
        items = browser.get("/api/v1/items", params={"limit": 500}).json()
        assert 60 + len(kept) <= items["total"] <= 60 + len(kept) + 2  # the last of each may be there without a word
        assert {item["id"]: item["label"] for item in items["items"] if item["id"] in kept} == kept
        (again,) = browser.post("/api/v1/items", files=uploads(picture(0, 2))).json()["items"]
        assert again["picture"] is True
