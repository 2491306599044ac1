"""Search and verify: the answers of the command line, over HTTP."""

import asyncio
import base64
import contextlib
import io
import json
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from howsure.cli.app import main
from howsure.data import corrupt
from howsure.embedder import Embedder
from howsure.errors import HowsureError
from howsure.web.routes.search import answer_all
from howsure.web.schemas import Precomputed
from web.browser import Browser, as_png, uploads


def command(monkeypatch, capsys, *words: object) -> Any:
    """What a verb prints as JSON."""
    monkeypatch.setattr(sys, "argv", ["howsure", *map(str, words), "--json"])
    with contextlib.suppress(SystemExit):
        main()
    return json.loads(capsys.readouterr().out)


def test_answers_are_those_of_the_command_line(browser, made, monkeypatch, capsys):
    files = sorted((made / "photos").rglob("*.png"))[::6]
    printed = command(monkeypatch, capsys, "search", made / "gallery", *files, "-k", 3)
    results = browser.search(*(file.read_bytes() for file in files), k=3).json()["results"]
    assert {one["answer"]["kind"] for one in results} >= {"match", "not_sure"}  # or nothing much is compared
    for mine, theirs in zip(results, printed, strict=True):
        assert (mine["answer"]["kind"], mine["answer"]["reason"]) == (theirs["answer"], theirs["reason"])
        assert mine["answer"]["probability"] == pytest.approx(theirs["probability"], abs=1e-4)
        assert mine["uncertainty"] == pytest.approx(theirs["uncertainty"], rel=1e-5)
        assert [match["id"] for match in mine["matches"]] == [match["id"] for match in theirs["matches"]]


def test_a_pair_is_judged_as_on_the_command_line(browser, made, monkeypatch, capsys):
    a, b = sorted((made / "photos").rglob("*.png"))[:2]
    printed = command(monkeypatch, capsys, "verify", made / "model", a, b)
    mine = browser.post(
        "/api/v1/verify", files=uploads(a.read_bytes(), name="a") + uploads(b.read_bytes(), name="b")
    ).json()
    assert mine["probability"] == pytest.approx(printed["probability"], abs=1e-6)
    assert (mine["answer"]["kind"], mine["uncertainty"]) == (printed["answer"], pytest.approx(printed["uncertainty"]))
    # rms distance² = |gap|² + both uncertainties, and the gap is what lies between the bells.
    gap = mine["bells"][1]["at"] - mine["bells"][0]["at"]
    assert mine["distance"] ** 2 == pytest.approx(gap**2 + sum(mine["uncertainty"]), rel=1e-4)


def test_every_answer_is_in_words_with_its_reason(browser, made):
    files = sorted((made / "photos").rglob("*.png"))[:32]
    for result in browser.search(*(file.read_bytes() for file in files)).json()["results"]:
        answer = result["answer"]
        if answer["kind"] == "match":
            assert answer["words"] == f"This is {result['matches'][0]['label']}."
            assert answer["why"] is None
        else:
            assert answer["words"] in ("Not sure.", "Unknown: nothing in the gallery is it.")
            assert len(answer["why"]) > 10


def test_a_rank_is_the_share_of_items_that_are_more_certain(browser, photo):
    mine = browser.search(photo).json()["results"][0]
    items = browser.get("/api/v1/items?limit=500").json()["items"]
    smaller = [item["uncertainty"] < mine["uncertainty"] * (1 - 1e-9) for item in items]
    assert mine["rank"] == pytest.approx(np.mean(smaller), abs=1.5 / len(items))


def test_an_uncertainty_comes_apart_into_picture_and_model(browser, made, photo):
    result = browser.search(photo).json()["results"][0]
    _, model = Embedder.load(made / "model").encode_split([Image.open(io.BytesIO(photo))])
    assert result["split"]["model"] == pytest.approx(float(model[0]), rel=1e-4)
    assert sum(result["split"].values()) == pytest.approx(result["uncertainty"], rel=1e-5)
    assert 0.01 < result["split"]["model"] / result["uncertainty"] < 0.5  # there is something to tell apart
    item = result["matches"][0]["id"]
    asked = browser.post("/api/v1/search/precomputed", json={"ids": [item]}).json()["results"][0]
    assert asked["split"] is None  # in closed form it takes the picture


def test_harm_is_that_of_the_library_and_the_reply_shows_it(browser, photo):
    image = Image.open(io.BytesIO(photo))
    wanted = corrupt(image, "noise", severity=5, rng=np.random.default_rng(0))
    shown = browser.search(photo, noise=5).json()["results"][0]["picture"]
    kind, _, content = shown.partition(",")
    assert kind == "data:image/png;base64"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))), np.asarray(wanted))
    assert browser.search(photo, noise=6).status_code == 422


def test_queries_can_be_items_or_embeddings(browser):
    ids = [item["id"] for item in browser.get("/api/v1/items?limit=3").json()["items"]]
    by_id = browser.post("/api/v1/search/precomputed", json={"ids": ids, "k": 2}).json()["results"]
    embedding = browser.service.state.index.get(ids)
    fields = {name: array.tolist() for name, array in embedding.arrays().items()}
    by_field = browser.post("/api/v1/search/precomputed", json={"fields": fields, "k": 2}).json()["results"]
    assert [one["name"] for one in by_id] == ids
    for mine, theirs in zip(by_id, by_field, strict=True):
        assert mine["matches"] == theirs["matches"]
        assert len(mine["matches"]) == 2


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({}, 422, "expected ids or fields, got neither"),
        ({"ids": ["a"], "fields": {}}, 422, "got both"),
        ({"ids": []}, 422, "at least one"),
        ({"ids": ["nobody"]}, 404, "an item of the gallery"),
        ({"ids": ["a"], "k": 0}, 422, "body k"),
        ({"fields": {"location": [[0.0]]}}, 422, "location, scale"),
        ({"fields": {"location": [[0.0, 1.0]], "scale": [[1.0, 1.0]]}}, 422, "rows of 4"),
        ({"fields": {"location": [[0.0], [1.0, 2.0]], "scale": [[1.0]]}}, 422, "rows of one length"),
        ({"colour": 1}, 422, "colour"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_in_words(browser, asked, status, words):
    reply = browser.post("/api/v1/search/precomputed", json=asked)
    assert reply.status_code == status
    assert words in reply.json()["detail"]


def test_questions_that_are_answered_together_get_what_they_would_get_alone(browser):
    ids = [item["id"] for item in browser.get("/api/v1/items?limit=20").json()["items"]]
    asked = [{"ids": [name], "k": 1 + number % 4} for number, name in enumerate(ids)] + [{"ids": ["nobody"]}]
    alone = [browser.post("/api/v1/search/precomputed", json=one).json() for one in asked]

    async def crowd():
        return await asyncio.gather(*(browser.ask("POST", "/api/v1/search/precomputed", json=one) for one in asked))

    answer, batches = browser.service.questions._answer, []
    browser.service.questions._answer = lambda questions: batches.append(len(questions)) or answer(questions)
    together = asyncio.run(crowd())
    browser.service.questions._answer = answer
    assert sum(batches) == len(asked) > len(batches)
    assert [reply.status_code for reply in together] == [200] * len(ids) + [404]
    for mine, theirs in zip(together, alone, strict=True):
        assert mine.json() == theirs or same_but_for_the_last_bits(mine.json(), theirs)


def test_a_question_that_cannot_be_searched_does_not_spoil_the_others_of_its_batch(browser):
    known = [item["id"] for item in browser.get("/api/v1/items?limit=2").json()["items"]]
    far = {"location": [[1e30, 0, 0, 0]], "scale": [[1.0] * 4]}
    fine = {"location": [[0.5, 0, 0, 0]], "scale": [[1.0] * 4]}
    asked = [Precomputed(fields=far), Precomputed(ids=known), Precomputed(fields=fine), Precomputed(ids=["nobody"])]
    replies = answer_all(browser.service.state, asked)
    assert [isinstance(reply, HowsureError) for reply in replies] == [True, False, False, True]
    assert [one.name for one in replies[1].results] == known


def same_but_for_the_last_bits(mine, theirs) -> bool:
    (a,), (b,) = mine["results"], theirs["results"]
    assert [match["id"] for match in a["matches"]] == [match["id"] for match in b["matches"]]
    assert a["answer"]["probability"] == pytest.approx(b["answer"]["probability"], abs=1e-6)
    return a["answer"]["kind"] == b["answer"]["kind"]


def test_drift_is_reported_once_queries_have_changed(own):
    with Browser(own) as browser:
        flat = as_png(Image.new("L", (8, 8), 255))
        drifted = [browser.search(*[flat] * 32).json()["drifted"] for _ in range(3)]
        assert drifted[-1] is True  # the same picture over and over is not like calibration
        assert browser.get("/api/v1/quality").json()["drift"]["seen"] == 96
        assert browser.search(flat, blur=1).json()["drifted"] is None
        assert browser.search(flat, trial=True).json()["drifted"] is None
        assert browser.get("/api/v1/quality").json()["drift"]["seen"] == 96  # harm on purpose does not count
