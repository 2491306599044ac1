"""A server that is killed while pictures are being added: nothing that it acknowledged is lost."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image

import howsure
from howsure.errors import HowsureError
from web.browser import Browser, as_png


@pytest.fixture
def server(own):
    words = [sys.executable, "-m", "howsure", "serve", str(own), "--no-open", "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    said = process.stderr.readline()
    found = re.search(r"http://\S+", said)
    assert found, said + process.stderr.read()
    yield process, found[0]
    process.kill()
    process.wait()
    process.stderr.close()


def test_what_was_acknowledged_survives_a_kill(server, own: Path):
    process, url = server
    client, kept = howsure.Client(url, timeout=60), []
    enough = threading.Event()

    def add() -> None:
        for shade in range(256):
            try:
                (item,) = client.add(as_png(Image.new("L", (8, 8), shade)), label=str(shade))["items"]
            except HowsureError:  # the server is gone
                return
            kept.append((item["id"], str(shade)))
            if len(kept) == 5:
                enough.set()

    adding = threading.Thread(target=add)
    adding.start()
    assert enough.wait(60)
    process.kill()  # in the middle of one more, very likely
    adding.join(60)
    assert 5 <= len(kept) < 256
    with Browser(own) as browser:
        total = browser.get("/api/v1/items").json()["total"]
        assert 60 + len(kept) <= total <= 60 + len(kept) + 1  # the last one may be there without a word
        for name, label in kept:
            assert browser.get(f"/api/v1/items/{name.replace('/', '%2F')}").json()["label"] == label
            assert browser.get(f"/api/v1/thumbnails/{name.replace('/', '%2F')}").status_code == 200
        (again,) = browser.post("/api/v1/items", files=[("pictures", ("x", as_png(Image.new("RGB", (9, 9)))))]).json()[
            "items"
        ]
        assert again["picture"] is True
