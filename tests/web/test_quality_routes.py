"""Quality, map, health, metrics and the description of it all."""

import asyncio
import re

import numpy as np
import pytest
import torch

from howsure.compare import rms_distance
from howsure.index import LocalIndex
from howsure.web.app import STATIC
from web.browser import Browser


def test_the_gallery_is_described(browser):
    reply = browser.get("/api/v1/gallery").json()
    assert (reply["name"], reply["items"], reply["family"], reply["dim"]) == ("gallery", 60, "gaussian", 4)
    assert reply["labels"] == sorted(map(str, range(10)))
    assert sum(reply["uncertainty"]["counts"]) == 60
    assert len(reply["uncertainty"]["edges"]) == len(reply["uncertainty"]["counts"]) + 1
    assert reply["fields"] == ["location", "scale"]


def test_quality_is_what_calibration_found(browser):
    reply = browser.get("/api/v1/quality").json()
    assert reply["certificate"]["max_error"] == 0.05
    assert "data" not in reply["certificate"]
    assert reply["honesty"]["right"]["reliability"] == [
        {"probability": 0.2, "happened": 0.25, "cases": 100},
        {"probability": 0.9, "happened": 0.85, "cases": 300},
    ]
    # The surest 300 of 400 first, 15 % of them wrong; then all, with 45 + 75 wrong.
    assert reply["stale"] == []
    risks = [(point["threshold"], point["coverage"], point["risk"]) for point in reply["risk_coverage"]]
    assert risks == [(0.9, 0.75, pytest.approx(0.15)), (0.2, 1.0, pytest.approx(0.3))]


def test_quality_says_how_the_gallery_has_changed(own, photo):
    with Browser(own) as browser:
        name = browser.get("/api/v1/items").json()["items"][0]["id"]
        assert browser.delete(f"/api/v1/items/{name}").status_code == 200
        stale = browser.get("/api/v1/quality").json()["stale"]
        assert stale == browser.search(photo).json()["stale"]
        assert "1 item removed since" in stale


def test_without_a_policy_everything_still_works(own, made, tmp_path, photo):
    import shutil

    from howsure.web.settings import Settings

    bare = shutil.copytree(made / "model", tmp_path / "bare")
    (bare / "policy.json").unlink()
    with Browser(own, Settings(model=bare)) as browser:
        assert browser.get("/api/v1/quality").json() == {
            "calibrated": False,
            "threshold": None,
            "certificate": None,
            "stale": [],
            "honesty": {},
            "risk_coverage": [],
            "drift": None,
            "unknown_roc": None,
            "unknown_roc_why": "the model has no policy yet: run howsure calibrate",
        }
        suspects = browser.get("/api/v1/suspects").json()
        assert suspects["label_errors"] == []
        assert browser.get("/api/v1/items?probability_from=0.5").status_code == 409
        result = browser.search(photo).json()["results"][0]
        assert (result["answer"]["kind"], result["answer"]["reason"]) == ("not_sure", "not_calibrated")
        reply = browser.post("/api/v1/verify", files=[("a", ("a", photo)), ("b", ("b", photo))])
        assert reply.status_code == 409
        assert "howsure calibrate" in reply.json()["detail"]


def test_an_empty_gallery_is_served(made, tmp_path, photo):
    with LocalIndex.open(made / "gallery") as full:
        about = full.about
    LocalIndex.create(tmp_path / "empty", about=about).close()
    with Browser(tmp_path / "empty") as browser:
        assert browser.search(photo).json()["results"][0]["answer"]["kind"] == "unknown"
        assert browser.get("/api/v1/items").json() == {"items": [], "total": 0, "offset": 0}
        assert browser.get("/api/v1/map").json()["ids"] == []
        assert browser.get("/api/v1/suspects").json() == {"duplicates": [], "label_errors": []}
        assert browser.get("/api/v1/items?probability_to=0.5").json()["total"] == 0
        assert browser.get("/api/v1/quality").json()["unknown_roc"] is None
        assert browser.get("/api/v1/gallery").json()["uncertainty"] is None
        given = browser.post("/api/v1/search/precomputed", json={"fields": {"location": [[0.0]]}})
        assert given.status_code == 409


def test_the_map_keeps_distances_as_well_as_a_plane_can(browser, made):
    reply = browser.get("/api/v1/map").json()
    with LocalIndex.open(made / "gallery") as index:
        ids, embedding = index.embedding()
    mean = embedding.mean.double().numpy()
    assert reply["ids"] == ids
    values = np.linalg.svd(mean - mean.mean(0), compute_uv=False) ** 2
    assert reply["explained"] == pytest.approx(values[:2].sum() / values.sum())
    xx, xy, yy = (np.array(reply[name]) for name in ("xx", "xy", "yy"))
    assert (xx * yy - xy**2 >= -1e-6 * xx * yy).all()  # an ellipse
    # Two of four orthogonal directions hold no more than all the variance.
    assert (xx + yy <= embedding.uncertainty.numpy() * 1.001).all()
    assert [reply["labels"][code] for code in reply["label"]] == index_labels(made, ids)


def index_labels(made, ids):
    with LocalIndex.open(made / "gallery") as index:
        return index.labels(ids)


def test_the_map_marks_items_whose_nearest_picture_carries_another_label(browser, made):
    reply = browser.get("/api/v1/map").json()
    with LocalIndex.open(made / "gallery") as index:
        ids, embedding = index.embedding()
        labels = np.array(index.labels(ids))
    distance = rms_distance(embedding.to(dtype=torch.float64), embedding.to(dtype=torch.float64)).numpy()
    np.fill_diagonal(distance, np.inf)
    wanted = labels[distance.argmin(1)] != labels
    assert reply["error"] == wanted.astype(int).tolist()
    assert 0 < sum(reply["error"]) < 60
    assert reply["error_why"] is None


def test_a_large_gallery_is_drawn_first_and_compared_afterwards(own, monkeypatch):
    monkeypatch.setattr("howsure.web.routes.quality.QUICK", 10)
    with Browser(own) as browser:

        async def twice():
            first = await browser.ask("GET", "/api/v1/map")
            while browser.service.comparisons.pending:
                await asyncio.sleep(0.01)
            return first.json(), (await browser.ask("GET", "/api/v1/map")).json()

        first, second = asyncio.run(twice())
    assert first["error"] is None
    assert "ask again" in first["error_why"]
    assert len(second["error"]) == len(second["ids"]) == 60


def test_unknown_detection_is_measured_on_the_gallery_itself(browser):
    reply = browser.get("/api/v1/quality").json()
    curve = reply["unknown_roc"]
    x, y = np.array(curve["false_positive"]), np.array(curve["true_positive"])
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    assert curve["auroc"] == pytest.approx(np.trapezoid(y, x), abs=0.01)
    # To hide an identity never brings the best match nearer.
    assert curve["auroc"] >= 0.5
    assert reply["unknown_roc_why"] is None


def test_metrics_count_and_can_be_parsed(own, photo):
    with Browser(own) as browser:
        browser.search(photo, photo)
        browser.get("/nothing")
        reply = browser.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = [line for line in reply.text.splitlines() if not line.startswith("#")]
        assert all(re.fullmatch(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [0-9.e+-]+', line) for line in lines)
        values = dict(line.rsplit(" ", 1) for line in lines)
        assert values["howsure_pictures_total"] == "2"
        assert values["howsure_gallery_items"] == "60"
        assert sum(int(v) for k, v in values.items() if k.startswith("howsure_answers_total")) == 2
        assert any('status="404"' in line for line in lines)
        buckets = [int(v) for k, v in values.items() if "_bucket" in k]
        assert buckets == sorted(buckets)


def test_the_description_documents_every_route_and_its_problems(browser):
    reply = browser.get("/api/v1/openapi.json").json()
    wanted = {"search", "search/precomputed", "verify", "items", "items/{name}", "quality", "map", "feedback", "undo"}
    assert {f"/api/v1/{path}" for path in wanted} <= set(reply["paths"])
    for path, methods in reply["paths"].items():
        for method, route in methods.items():
            assert route.get("description"), (method, path)
            assert "application/problem+json" in route["responses"]["422"]["content"], (method, path)


def test_pages_ask_for_nothing_elsewhere(browser):
    for file in sorted(STATIC.iterdir()):
        content = file.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
        assert not re.search(r"https?://|//[a-z]+\.[a-z]+/", content), file.name
        assert browser.get(f"/{file.name}").status_code == 200
    page = browser.get("/").text
    assert "<script>" not in page
    assert not re.search(r"\son[a-z]+=|\sstyle=", page)  # the content policy would block them


def test_every_module_that_is_imported_is_there():
    for file in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([a-z]+\.js)"', file.read_text(encoding="utf-8")):
            assert (STATIC / name).is_file(), (file.name, name)
