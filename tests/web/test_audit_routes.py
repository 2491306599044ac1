"""Drawn queries in the web app: asked, listed, looked at, judged, by their number or by feedback."""

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import howsure
from decide.policies import policy
from howsure.decide import Audited, Verdict
from howsure.errors import GalleryError, HowsureError, InputError
from howsure.web.app import create_app
from howsure.web.settings import Settings
from web.browser import Browser, as_png
from web.listening import listening

ALL = Settings(audit=1.0)


@pytest.fixture
def browser(own):
    with Browser(own, ALL) as opened:
        yield opened


def ask(browser, *contents, **fields):
    return browser.search(*contents, **fields).json()["results"]


def waiting(browser):
    return [one["id"] for one in browser.get("/api/v1/audit").json()["waiting"]]


def verdicts(browser):
    return [one.verdict for one in browser.service.state.gallery.audit.queries()]


def test_a_drawn_query_waits_with_its_picture_until_it_is_judged(browser, photo, made):
    assert browser.get("/api/v1/audit").json() == {"drawn": 0, "waiting": []}
    black = as_png(Image.new("L", (8, 8), 0))
    first, second = ask(browser, photo, black)
    assert [first["audit"], second["audit"]] == ["1", "2"]
    reply = browser.get("/api/v1/audit").json()
    assert reply["drawn"] == 2
    assert [(one["id"], one["answer"], one["picture"]) for one in reply["waiting"]] == [
        ("1", first["answer"]["kind"], True),
        ("2", second["answer"]["kind"], True),
    ]
    shown = browser.get("/api/v1/audit/1/picture")
    assert shown.headers["content-type"] == "image/png"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(shown.content))), np.asarray(_image(photo)))
    assert browser.post("/api/v1/audit/1", json={"label": "8"}).json() == {"id": "1", "replaced": False}
    assert waiting(browser) == ["2"]
    assert browser.post("/api/v1/audit/1", json={"unknown": True}).json() == {"id": "1", "replaced": True}
    assert browser.post("/api/v1/audit/2", json={"unclear": True}).status_code == 200
    assert verdicts(browser) == [Verdict("unknown"), Verdict("unclear")]


def _image(content):
    return Image.open(io.BytesIO(content))


def test_the_draw_is_known_again_as_the_picture_that_it_was(own, photo, made):
    with Browser(own, ALL) as browser:
        ask(browser, photo)
        browser.post("/api/v1/audit/1", json={"label": "8"})
        held = browser.service.state.gallery.audit.held_out()
    with howsure.Gallery.open(own) as gallery:
        embedding, content, _ = gallery.embedder.encode_content([_image(photo)])
    assert held.content.tolist() == content.tolist()
    np.testing.assert_allclose(held.embedding.mean, embedding.mean, atol=1e-6)


def test_what_is_no_query_of_use_is_never_drawn(browser, photo):
    ask(browser, photo, trial=True)
    ask(browser, photo, blur=2)
    name = browser.get("/api/v1/items?limit=1").json()["items"][0]["id"]
    browser.post("/api/v1/search/precomputed", json={"ids": [name]})
    assert browser.get("/api/v1/audit").json()["drawn"] == 0


def test_nothing_is_drawn_unless_it_is_asked_for(own, photo):
    with Browser(own) as browser:
        assert ask(browser, photo)[0]["audit"] is None
        assert not (own / "audit").exists()


def test_feedback_on_a_drawn_query_is_a_verdict(browser, photo):
    (result,) = ask(browser, photo)
    item = result["matches"][0]

    def say(**given):
        body = {"query": result["query"], "item": item["id"]} | given
        assert browser.post("/api/v1/feedback", json=body).status_code == 201
        return verdicts(browser)

    assert say(same=False) == [None]  # it is not this; who knows what it is
    assert say(same=True) == [Verdict("label", item["label"])]
    assert say(same=False) == [None]  # taken back
    assert say(same=False, label="zebra") == [Verdict("label", "zebra")]
    assert say(same=False) == [Verdict("label", "zebra")]
    other = {"query": "0" * 64, "item": item["id"], "same": True}
    assert browser.post("/api/v1/feedback", json=other).status_code == 201
    assert verdicts(browser) == [Verdict("label", "zebra")]


@pytest.mark.parametrize(
    ("number", "given", "status"),
    [
        ("2", {"label": "8"}, 404),
        ("..%2F1", {"label": "8"}, 405),  # no such address: only pages are left
        ("%00", {"label": "8"}, 404),
        ("1", {}, 422),
        ("1", {"label": "8", "unknown": True}, 422),
        ("1", {"unknown": True, "unclear": True}, 422),
        ("1", {"label": ""}, 422),
        ("1", {"label": "a\x1b[31m"}, 422),
        ("1", {"label": "a" * 257}, 422),
        ("1", {"more": 1}, 422),
    ],
)
def test_a_verdict_that_makes_no_sense_is_refused(browser, photo, number, given, status):
    ask(browser, photo)
    assert browser.post(f"/api/v1/audit/{number}", json=given).status_code == status
    assert verdicts(browser) == [None]


@pytest.mark.parametrize("number", ["2", "..%2F..%2Fmodel", "%2Fetc%2Fpasswd"])
def test_there_is_no_picture_of_what_was_not_drawn(browser, photo, number):
    ask(browser, photo)
    assert browser.get(f"/api/v1/audit/{number}/picture").status_code == 404


def test_a_picture_that_is_gone_can_still_be_judged(browser, photo):
    (result,) = ask(browser, photo)
    browser.service.state.feedback.picture_of(result["query"]).unlink()
    (one,) = browser.get("/api/v1/audit").json()["waiting"]
    assert one["picture"] is False
    assert browser.get("/api/v1/audit/1/picture").status_code == 404
    assert browser.post("/api/v1/audit/1", json={"unclear": True}).status_code == 200


def test_it_survives_a_restart_and_what_the_shell_labels_is_seen(own, photo):
    with Browser(own, ALL) as browser:
        ask(browser, photo, photo)
    with Browser(own) as browser:  # drawn before, with or without more draws
        assert waiting(browser) == ["1", "2"]
        with howsure.Gallery.open(own) as gallery:
            gallery.audit.judge({"1": Verdict("label", "8")})
        assert waiting(browser) == ["2"]


def test_the_certificate_tells_the_audit(own):
    told = Audited(80, 60, 4, "2024-01-01T00:00:00+00:00", "2024-02-01T00:00:00+00:00", (0.05,))
    with howsure.Gallery.open(own) as gallery:
        kept = gallery.policy
    replace(kept, certificate=replace(policy().certificate, audit=told)).save(own)
    with Browser(own) as browser:
        reply = browser.get("/api/v1/quality").json()["certificate"]["audit"]
    assert reply == {
        "drawn": 80,
        "used": 60,
        "waiting": 4,
        "since": "2024-01-01T00:00:00+00:00",
        "until": "2024-02-01T00:00:00+00:00",
        "rates": [0.05],
    }


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_probability(rate):
    with pytest.raises(InputError, match="a probability from 0 to 1"):
        Settings(audit=rate)


def test_the_client_lists_and_judges(made, tmp_path, photo):
    gallery = shutil.copytree(made / "gallery", tmp_path / "gallery")
    with listening(create_app(gallery, ALL), ALL) as port:
        client = howsure.Client(f"http://127.0.0.1:{port}")
        (result,) = client.search(photo)["results"]
        assert [one["id"] for one in client.audit()["waiting"]] == [result["audit"]]
        assert client.judge("1", "8") == {"id": "1", "replaced": False}
        assert client.judge("1", unknown=True)["replaced"] is True
        assert client.audit()["waiting"] == []
        with pytest.raises(HowsureError, match="the number of one that was drawn"):
            client.judge("2", unclear=True)


def test_a_gallery_on_a_server_is_refused_before_anything_is_served(monkeypatch, own):
    where, opened = "postgresql://host/database/photos", howsure.Gallery.open(own)
    opened.embedder.eval()  # it is loaded; from here on the gallery passes for one on a server
    opened.where = where
    monkeypatch.setattr("howsure.web.state.Gallery.open", lambda url, **how: opened)
    with pytest.raises(GalleryError, match="a gallery in a directory, got one on a server"):
        create_app(where, ALL)
