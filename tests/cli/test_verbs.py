"""The verbs and their contract: JSON keys, exit codes, one-line errors."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from howsure import restore
from howsure.errors import ModelError


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


CALIBRATE = ("--max-error", 0.1, "--confidence", 0.9)


def test_train_writes_a_model_and_says_how_good_it_is(run, tmp_path):
    done = run(
        "train", "digits:train", "-o", tmp_path / "m", "--epochs", 2, "--dim", 4, "--method", "gaussian", "--json"
    )
    assert done.code == 0
    assert done.json["recall_at_1"] > 0.5
    assert done.json["recipe"]["dim"] == 4
    assert [epoch["epoch"] for epoch in done.json["history"]] == [1, 2]
    assert (tmp_path / "m" / "card.json").exists()
    assert "epoch 2" in done.err


def test_train_does_not_overwrite_and_resumes(run, tmp_path):
    out = tmp_path / "m"
    assert run("train", "digits:train", "-o", out, "--epochs", 1, "--dim", 5).code == 0
    again = run("train", "digits:train", "-o", out, "--epochs", 1)
    assert (again.code, again.out) == (2, "")
    assert "--resume" in again.err
    more = run("train", "digits:train", "-o", out, "--epochs", 2, "--resume", "--json")
    assert len(more.json["history"]) == 2
    assert more.json["recipe"]["dim"] == 5


def test_embed_writes_arrays_that_restore(run, model, tmp_path):
    file = tmp_path / "sub" / "e.npz"
    done = run("embed", model, "digits:test@3", "-o", file, "--json")
    assert done.json["family"] == "point"
    with np.load(file, allow_pickle=False) as stored:
        embedding = restore(str(stored["family"]), {"location": stored["location"]})
        assert set(stored["labels"]) == {"3"}
        np.testing.assert_array_equal(stored["mean"], embedding.mean.numpy())
        np.testing.assert_array_equal(stored["variance"], embedding.variance.numpy())
        np.testing.assert_array_equal(stored["uncertainty"], embedding.uncertainty.numpy())
        assert len(stored["ids"]) == len(embedding) == done.json["items"]


def test_calibrate_index_search_verify(run, own, pictures, tmp_path):
    made = run("calibrate", own, "digits:test@!8,9", "--unknown", "digits:test@8,9", *CALIBRATE, "--json").json
    assert {"threshold", "coverage", "error_bound", "n", "data", "identities"} <= set(made)
    assert set(made["honesty"]) == {"same", "right", "none"}
    assert {"ece", "brier", "reliability", "link", "n"} <= set(made["honesty"]["right"])
    judged = run("evaluate", own, "digits:test@!8,9", "--json").json
    assert {"right_ece", "right_brier", "none_ece", "none_brier"} <= set(judged["metrics"])
    assert sum(count for _, _, count in judged["reliability"]["right"]) == judged["pictures"]
    assert made["error_bound"] <= 0.1
    assert 0.3 < made["coverage"] <= 1

    gallery = tmp_path / "gallery"
    first = run("index", "digits:train@!8,9", "-m", own, "-o", gallery, "--json").json
    assert first["added"] == first["items"] > 600
    second = run("index", pictures, "-m", own, "-o", gallery, "--json").json
    assert second["items"] == first["items"] + 200
    assert run("index", pictures, "-m", own, "-o", gallery, "--json").json["unchanged"] == 200

    query = next((pictures / "3").iterdir())
    found = run("search", gallery, query, pictures / "8", "-k", 3, "--json").json
    keys = {
        "query",
        "answer",
        "reason",
        "why",
        "fault",
        "probability",
        "needed",
        "none",
        "uncertainty",
        "novelty",
        "matches",
        "exact",
        "set",
        "audit",
        "drift",
        "stale",
    }
    assert set(found[0]) == keys
    assert found[0]["probability"] + found[0]["none"] <= 1
    assert found[0]["drift"] is None  # a point model has nothing to tell it by
    assert found[0]["answer"] == "match"
    assert found[0]["exact"] is True
    assert found[0]["matches"][0] == {
        "id": f"photos/3/{query.name}",
        "label": "3",
        "probability": pytest.approx(1, abs=0.02),
        "distance": pytest.approx(0, abs=1e-6),
    }
    assert len(found) == 1 + len(list((pictures / "8").iterdir()))

    gone = run("index", "-o", gallery, "--remove", f"photos/3/{query.name}", "--json").json
    assert (gone["removed"], gone["items"]) == (1, second["items"] - 1)
    unknown = run("index", "-o", gallery, "--remove", "nothing")
    assert unknown.code == 2
    assert "nothing" in unknown.err

    same = run("verify", own, query, query, "--json").json
    other = run("verify", own, query, next((pictures / "0").iterdir()), "--json").json
    assert same["answer"] == "match"
    assert other["answer"] == ("unknown" if other["probability"] <= 0.1 else "not_sure")
    assert 0 <= other["probability"] < 0.5 < 0.9 < same["probability"] <= 1


def test_calibrate_that_cannot_promise_exits_1_and_changes_nothing(run, own):
    before = sorted(file.name for file in own.iterdir())
    done = run("calibrate", own, "digits:test@!8,9", "--max-error", 0.0001, "--json")
    assert (done.code, done.out) == (1, "")
    assert "no policy can promise" in done.err
    assert sorted(file.name for file in own.iterdir()) == before


def test_a_gallery_is_calibrated_by_itself(run, own, tmp_path):
    gallery = tmp_path / "gallery"
    run("index", "digits:train@!8,9", "-m", own, "-o", gallery)
    made = run("calibrate", gallery, "digits:test@!8,9", *CALIBRATE, "--json").json
    assert made["identities"] == 8
    assert not (own / "policy.json").exists()
    assert any(result["answer"] == "match" for result in run("search", gallery, "digits:test@1", "--json").json)
    done = run("calibrate", gallery, "digits:test@!8,9", "--gallery", gallery)
    assert done.code == 2
    assert "leave it out" in done.err


def test_calibrate_against_a_gallery(run, own, tmp_path):
    gallery = tmp_path / "gallery"
    run("index", "digits:train@!8,9", "-m", own, "-o", gallery)
    made = run("calibrate", own, "digits:test@!8,9", "--gallery", gallery, *CALIBRATE, "--json").json
    assert made["gallery"] > 600
    assert made["unknown_rate"] == pytest.approx(0.2, abs=0.06)


def test_search_without_a_policy_is_never_sure(run, model, pictures, tmp_path):
    gallery = tmp_path / "gallery"
    run("index", pictures, "-m", model, "-o", gallery)
    found = run("search", gallery, pictures / "3", "--json").json
    assert {(row["answer"], row["reason"], row["probability"]) for row in found} == {
        ("not_sure", "not_calibrated", None)
    }
    assert all(0 <= match["probability"] <= 1 for row in found for match in row["matches"])


def test_gallery_of_another_model_is_refused(run, model, pictures, tmp_path):
    gallery = tmp_path / "gallery"
    run("index", pictures, "-m", model, "-o", gallery)
    run("train", "digits:train", "-o", tmp_path / "other", "--epochs", 1)
    for arguments in (
        ("index", pictures, "-m", tmp_path / "other", "-o", gallery),
        ("search", gallery, pictures / "3", "-m", tmp_path / "other"),
    ):
        done = run(*arguments)
        assert done.code == 2
        assert "the model that made it" in done.err


def test_search_says_where_to_look_when_the_model_has_moved(run, own, pictures, tmp_path):
    gallery = tmp_path / "gallery"
    run("index", pictures, "-m", own, "-o", gallery)
    moved = own.rename(tmp_path / "moved")
    lost = run("search", gallery, pictures / "3")
    assert lost.code == 2
    assert "--model" in lost.err
    assert run("search", gallery, pictures / "3", "-m", moved).code == 0


def test_evaluate_names_every_convention(run, model):
    done = run("evaluate", model, "digits:test@!8,9", "--ood", "digits:test@8,9", "--json").json
    assert done["metrics"]["recall_at_1"]["value"] > 0.9
    assert all(metric["convention"] for metric in done["metrics"].values())
    assert done["metrics"]["ood_auroc_knn50_distance"]["value"] > 0.8
    assert done["metrics"]["aurc_uncertainty"]["value"] is None  # a point says the same of every picture


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("train", "nowhere", "-o", "m"), "nowhere"),
        (("train", "digts", "-o", "m"), "digits"),
        (("train", "digits:train", "-o", "m", "--method", "magic"), "magic"),
        (("train", "digits:train", "-o", "m", "--loss", "tripplet"), "triplet"),
        (("train", "digits:train", "-o", "m", "--miner", "soft"), "semihard"),
        (("embed", "nomodel", "digits", "-o", "e.npz"), "nomodel"),
        (("embed", "nomodel", "digits", "-o", "e.txt"), ".npz"),
        (("search", "nogallery", "x.png"), "nogallery"),
        (("index", "digits"), "-o GALLERY"),
        (("verify", "nomodel", "a.png", "b.png"), "nomodel"),
        (("calibrate", "nomodel", "digits"), "nomodel"),
        (("evaluate", "nomodel", "digits"), "nomodel"),
        (("serch", "g"), "search"),
        (("train",), "DATA"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(run, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert word in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_debug_shows_where_an_error_came_from(run):
    words = ("embed", "nomodel", "digits", "-o", "e.npz")
    assert run(*words).code == 2
    with pytest.raises(ModelError) as raised:  # Python then prints the traceback
        run(*words, "--debug")
    assert raised.traceback[-1].name == "read_card"
