"""Duplicates, wrong labels and the best pictures, over HTTP."""

from PIL import Image

from howsure.index import LocalIndex
from howsure.index.identities import best_pictures
from web.browser import Browser, as_png, uploads


def test_a_picture_that_is_there_twice_is_found_and_gone_when_it_is_removed(own, photo):
    with LocalIndex.open(own, write=True) as index:
        first = index.ids()[0]
        index.add(["copy"], index.get([first]), labels=["0"])
    with Browser(own) as browser:
        reply = browser.get("/api/v1/suspects").json()
        (twins,) = [pair for pair in reply["duplicates"] if "copy" in (pair["a"], pair["b"])]
        assert {twins["a"], twins["b"]} == {first, "copy"}
        assert 0 <= twins["probability"] <= 1
        for error in reply["label_errors"]:
            assert error["label"] != error["suggested"]
            assert 0.5 < error["probability"] <= 1
        assert len(browser.get("/api/v1/suspects?limit=1").json()["duplicates"]) == 1
        browser.delete("/api/v1/items/copy")
        reply = browser.get("/api/v1/suspects").json()
        assert all("copy" not in (pair["a"], pair["b"]) for pair in reply["duplicates"])


def test_the_best_pictures_are_those_of_the_library(browser):
    view = browser.service.state.view()
    rows = [row for row, label in enumerate(view.labels) if label == "3"]
    chosen = best_pictures(view.embedding[rows], ["3"] * len(rows), 3)
    reply = browser.get("/api/v1/identities/3/best?count=3").json()
    assert sorted(reply["ids"]) == sorted(view.ids[rows[row]] for row in chosen)
    assert len(reply["why"]) == 3
    assert browser.get("/api/v1/identities/3/best?count=0").status_code == 422
    assert browser.get("/api/v1/identities/nobody/best").status_code == 404


def test_a_label_may_have_a_slash_in_it(own):
    with Browser(own) as browser:
        wall = as_png(Image.new("L", (8, 8), 99))
        browser.post("/api/v1/items", files=uploads(wall), data={"label": "a/b c"})
        reply = browser.get("/api/v1/identities/a%2Fb%20c/best").json()
        assert reply["why"] == ["the only picture"]
