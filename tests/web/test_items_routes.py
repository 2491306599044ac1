"""Look at the gallery, add to it, remove from it and bring back; and say what is right."""

import asyncio
import csv
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from howsure.index import LocalIndex
from howsure.match import match_probability
from howsure.web.feedback import FILE
from howsure.web.routes.items import _steps
from web.browser import Browser, as_png, uploads


def everything(browser, **query):
    return browser.get("/api/v1/items", params={"limit": 500} | query).json()


def test_items_come_least_certain_first_and_ranks_fall(browser, made):
    page = everything(browser)
    with LocalIndex.open(made / "gallery") as index:
        ids, embedding = index.embedding()
    order = np.argsort(-embedding.uncertainty.numpy(), kind="stable")
    assert [item["id"] for item in page["items"]] == [ids[row] for row in order]
    ranks = [item["rank"] for item in page["items"]]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[-1] == 0


@pytest.mark.parametrize("sort", ["uncertainty", "label", "added"])
def test_pages_join_to_the_whole(browser, sort):
    whole = everything(browser, sort=sort)
    parts = [browser.get(f"/api/v1/items?sort={sort}&offset={start}&limit=7").json() for start in range(0, 70, 7)]
    assert [item for part in parts for item in part["items"]] == whole["items"]
    assert {part["total"] for part in parts} == {len(whole["items"])} == {60}


def test_filters_keep_what_they_say(browser):
    whole = everything(browser)["items"]
    for query, kept in (
        ({"label": "3"}, lambda item: item["label"] == "3"),
        ({"text": "/00"}, lambda item: "/00" in item["id"]),
        ({"least": 0.9}, lambda item: item["rank"] >= 0.9),
        ({"most": 0.1, "label": "1"}, lambda item: item["rank"] <= 0.1 and item["label"] == "1"),
    ):
        wanted = [item for item in whole if kept(item)]
        assert everything(browser, **query)["items"] == wanted, query
        assert len(wanted) < 60
    assert everything(browser, label="nobody")["total"] == 0


def test_a_label_is_confirmed_by_the_nearest_other_item_of_it(browser):
    whole = everything(browser)["items"]
    view = browser.service.state.view()
    link = browser.service.state.gallery.matcher
    embedding, labels = view.embedding.to(dtype=torch.float64), np.array(view.labels)
    same = match_probability(link, embedding, embedding).numpy()
    np.fill_diagonal(same, 0)
    wanted = np.where(labels == labels[:, None], same, 0).max(1)
    middle = float(np.median(wanted))
    low, high = (
        {item["id"] for item in everything(browser, **query)["items"]}
        for query in ({"probability_to": middle}, {"probability_from": middle})
    )
    assert low | high == {item["id"] for item in whole}
    # Whoever has no other of its label among its nearest few counts as not confirmed.
    assert high <= {name for name, p in zip(view.ids, wanted, strict=True) if p >= middle - 1e-9}
    assert 0 < len(high) < 60
    assert everything(browser, probability_from=0.9, probability_to=0.1)["total"] == 0


def test_many_are_added_with_a_line_about_each(own):
    grey = [as_png(Image.new("L", (8, 8), shade)) for shade in (10, 90, 170)]
    with Browser(own) as browser:
        reply = browser.post("/api/v1/items/bulk", files=uploads(grey[0], b"no", *grey[1:]), data={"label": "wall"})
        assert reply.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in reply.text.splitlines()]
        assert [(line["done"], line["total"]) for line in lines] == [(done, 4) for done in (1, 2, 3, 4)]
        assert [sorted(set(line) - {"done", "total"}) for line in lines] == [["id"], ["problem"], ["id"], ["id"]]
        assert "not a picture" in lines[1]["problem"]
        walls = {item["id"] for item in everything(browser, label="wall")["items"]}
        assert walls == {line["id"] for line in lines if "id" in line}


def test_each_picture_of_many_is_on_disk_when_its_line_comes(own):
    with Browser(own) as browser:
        uploads_ = [("x", as_png(Image.new("L", (8, 8), shade))) for shade in (10, 90)]

        async def first_line():
            steps = _steps(browser.service, uploads_, None)
            line = json.loads(await anext(steps))
            with LocalIndex.open(own) as index:
                return line["id"], index.ids()

        name, there = asyncio.run(first_line())
        assert there[-1] == name
        assert len(there) == 61


def test_one_item_and_its_thumbnail(browser, made):
    item = everything(browser)["items"][0]
    name = item["id"].replace("/", "%2F")
    assert browser.get(f"/api/v1/items/{name}").json() == item
    reply = browser.get(f"/api/v1/thumbnails/{name}")
    assert reply.headers["content-type"] == "image/png"
    shown, there = Image.open(io.BytesIO(reply.content)), Image.open(made / "photos" / item["id"])
    np.testing.assert_array_equal(np.asarray(shown), np.asarray(there))


def test_a_picture_that_is_no_longer_there_is_a_404(own, made):
    with LocalIndex.open(own, write=True) as index:
        index.add(["lost"], index.get([index.ids()[0]]), metadata=[{"path": "/nowhere/lost.png"}])
        index.add(["bare"], index.get([index.ids()[0]]))
    with Browser(own) as browser:
        assert browser.get("/api/v1/thumbnails/lost").status_code == 404
        assert browser.get("/api/v1/thumbnails/bare").status_code == 404
        assert browser.get("/api/v1/items/bare").json()["picture"] is False


def test_what_is_added_is_found_and_survives_a_restart(own):
    bright = as_png(Image.new("L", (8, 8), 200))
    with Browser(own) as browser:
        reply = browser.post("/api/v1/items", files=uploads(bright), data={"label": "a wall"})
        assert reply.status_code == 201
        (item,) = reply.json()["items"]
        assert (item["label"], item["picture"]) == ("a wall", True)
        matches = browser.search(bright, k=100).json()["results"][0]["matches"]
        assert len(matches) == 61
        assert item["id"] in [match["id"] for match in matches]
        name = item["id"].replace("/", "%2F")
        # No close and no goodbye: what was acknowledged is there.
        with Browser(own) as other:
            assert other.get(f"/api/v1/items/{name}").json() == item
            assert other.get(f"/api/v1/thumbnails/{name}").status_code == 200


def test_a_bad_picture_adds_nothing_at_all(own, photo):
    with Browser(own) as browser:
        assert browser.post("/api/v1/items", files=uploads(photo, b"no")).status_code == 422
        assert browser.post("/api/v1/items", files=uploads(photo, photo)).status_code == 422
        assert everything(browser)["total"] == 60


def test_a_removal_can_be_undone_once_bit_for_bit(own):
    with Browser(own) as browser:
        item = everything(browser)["items"][0]
        before = browser.service.state.index.get([item["id"]]).arrays()
        name = item["id"].replace("/", "%2F")
        gone = browser.delete(f"/api/v1/items/{name}").json()
        assert browser.get(f"/api/v1/items/{name}").status_code == 404
        assert everything(browser)["total"] == 59
        assert browser.delete(f"/api/v1/items/{name}").status_code == 404
        back = browser.post("/api/v1/undo", json={"undo": gone["undo"]})
        assert back.json() == item
        after = browser.service.state.index.get([item["id"]]).arrays()
        assert all((before[field] == after[field]).all() for field in before)
        assert browser.post("/api/v1/undo", json={"undo": gone["undo"]}).status_code == 404


def test_an_added_picture_that_was_removed_for_good_is_off_the_disk(own):
    with Browser(own) as browser:
        (item,) = browser.post("/api/v1/items", files=uploads(as_png(Image.new("L", (8, 8), 9)))).json()["items"]
        folder = browser.service.state.folder / "pictures"
        browser.delete(f"/api/v1/items/{item['id'].replace('/', '%2F')}")
        assert len(list(folder.iterdir())) == 1  # it may still come back
    assert list(folder.iterdir()) == []


def test_a_change_while_another_process_writes_says_try_again(own, photo):
    with Browser(own) as browser, LocalIndex.open(own, write=True):
        reply = browser.post("/api/v1/items", files=uploads(photo))
        assert reply.status_code == 503
        assert "retry-after" in reply.headers
        assert browser.search(photo).status_code == 200


def test_feedback_survives_a_restart_and_a_torn_line(own, photo):
    with Browser(own) as browser:
        result = browser.search(photo).json()["results"][0]
        item = result["matches"][0]["id"]
        given = {"query": result["query"], "item": item, "same": True, "label": "=8"}
        kept = browser.post("/api/v1/feedback", json=given)
        assert kept.status_code == 201
        folder = browser.service.state.folder
    assert (folder / kept.json()["picture"]).is_file()
    with (folder / FILE).open("ab") as file:
        file.write(b'{"query": "torn')
    with Browser(own) as browser:
        assert browser.get("/api/v1/feedback").json()["pairs"] == [kept.json()]
        assert browser.post("/api/v1/feedback", json=given | {"same": False}).status_code == 201
        pairs = browser.get("/api/v1/feedback").json()["pairs"]
        assert [pair["same"] for pair in pairs] == [True, False]
        assert {pair["picture"] for pair in pairs} == {kept.json()["picture"]}  # known from before
        rows = list(csv.DictReader(io.StringIO(browser.get("/api/v1/feedback.csv").text)))
        assert [(row["item"], row["same"], row["label"]) for row in rows] == [(item, "1", "'=8"), (item, "0", "'=8")]


@pytest.mark.parametrize(
    ("change", "status"),
    [({"item": "nobody"}, 404), ({"query": "../../x"}, 422), ({"same": None}, 422), ({"more": 1}, 422)],
)
def test_feedback_that_makes_no_sense_is_refused(browser, change, status):
    given = {"query": "0" * 64, "item": "x", "same": True} | change
    assert browser.post("/api/v1/feedback", json=given).status_code == status


def test_the_gallery_as_the_command_line_changes_it_is_what_is_served(own):
    with Browser(own) as browser:
        name = everything(browser)["items"][0]["id"]
        with LocalIndex.open(own, write=True) as index:
            index.remove([name])
        assert everything(browser)["total"] == 59
        assert browser.get("/api/v1/gallery").json()["items"] == 59
