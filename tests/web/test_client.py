"""The client against a server on a socket of its own."""

import shutil

import pytest
from PIL import Image

import howsure
from howsure.errors import GalleryUnavailableError, HowsureError, InputError
from howsure.web.app import create_app
from howsure.web.settings import Settings
from web.browser import as_png
from web.listening import listening

TOKEN = "a token that is long enough"


@pytest.fixture(scope="module")
def url(made, tmp_path_factory):
    settings = Settings(token=TOKEN, folder=tmp_path_factory.mktemp("folder"))
    gallery = shutil.copytree(made / "gallery", tmp_path_factory.mktemp("client") / "gallery")
    with listening(create_app(gallery, settings), settings) as port:
        yield f"http://127.0.0.1:{port}"


def test_the_client_asks_and_gets_replies(url, made):
    client = howsure.Client(url, TOKEN)
    a, *_, b = sorted((made / "photos").rglob("*.png"))
    found = client.search(a, b.read_bytes(), k=3)["results"]
    assert [len(one["matches"]) for one in found] == [3, 3]
    assert (found[0]["name"], found[1]["name"]) == (a.name, "picture")
    assert client.verify(a, a)["probability"] > client.verify(a, b)["probability"]
    page = client.items(sort="uncertainty", descending=False, limit=2)
    assert page["items"][0]["uncertainty"] <= page["items"][1]["uncertainty"]
    assert client.item(page["items"][0]["id"]) == page["items"][0]
    assert client.search_items([page["items"][0]["id"]])["results"][0]["name"] == page["items"][0]["id"]
    assert client.quality()["calibrated"] is True
    kept = client.feedback(found[0]["query"], found[0]["matches"][0]["id"], same=True)
    assert kept["same"] is True


def test_the_client_looks_at_the_whole_gallery(url):
    client = howsure.Client(url, TOKEN)
    plane = client.map()
    assert len(plane["error"]) == len(plane["ids"]) == 60
    found = client.suspects(limit=3)
    assert len(found["label_errors"]) <= 3
    best = client.best("8", count=2)
    assert {client.item(name)["label"] for name in best["ids"]} == {"8"}
    assert len(best["why"]) == len(best["ids"]) == 2
    with pytest.raises(HowsureError, match="a label of the gallery"):
        client.best("no/body")


def test_many_are_added_and_reported_one_by_one(url):
    client = howsure.Client(url, TOKEN)
    pictures = [as_png(Image.new("L", (8, 8), shade)) for shade in (3, 5)]
    steps = list(client.add_many(pictures[0], b"no", pictures[1], label="new"))
    assert [step["done"] for step in steps] == [1, 2, 3]
    assert "not a picture" in steps[1]["problem"]
    for row in (0, 2):
        assert client.item(steps[row]["id"])["label"] == "new"
        client.remove(steps[row]["id"])
    with pytest.raises(HowsureError, match="token"):
        list(howsure.Client(url, "wrong").add_many(pictures[0]))


def test_a_change_comes_and_goes(url, photo):
    client = howsure.Client(url, TOKEN)
    before = client.items()["total"]
    (item,) = client.add(photo, label="new")["items"]
    assert client.items()["total"] == before + 1
    token = client.remove(item["id"])
    assert client.items()["total"] == before
    assert client.undo(token)["label"] == "new"
    client.remove(item["id"])


def test_refusals_are_our_errors_with_the_words_of_the_server(url, tmp_path):
    client = howsure.Client(url, TOKEN)
    with pytest.raises(HowsureError, match="not a picture in a known format"):
        client.search(b"hello")
    with pytest.raises(HowsureError, match="token"):
        howsure.Client(url, "wrong").quality()
    with pytest.raises(InputError, match="no such file"):
        client.search(tmp_path / "none.png")
    with pytest.raises(InputError, match="http://HOST:PORT"):
        howsure.Client("localhost:8765")
    with pytest.raises(GalleryUnavailableError, match="is howsure serve running"):
        howsure.Client("http://127.0.0.1:9").quality()
