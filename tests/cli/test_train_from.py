"""howsure train --from: uncertainty for a model that exists."""

import json
import shutil

import pytest
import torch

from howsure import Embedder, data

TRAIN = "digits:train@!8,9"


def test_adds_scales_and_moves_no_mean(run, model, tmp_path):
    out = tmp_path / "sure"
    done = run("train", TRAIN, "-o", out, "--method", "pfe", "--from", model, "--epochs", 2, "--json")
    assert done.code == 0, done.err
    before, after = Embedder.load(model), Embedder.load(out)
    assert done.json["origin"] == after.card["origin"] == before.fingerprint
    pictures = data.load("digits:test")
    assert torch.equal(after.encode(pictures).mean, before.encode(pictures).mean)
    assert after.encode(pictures).uncertainty.std() > 0
    measured = run("evaluate", out, "digits:test@!8,9", "--json").json["metrics"]
    assert measured["aurc_uncertainty"]["value"] < 0.05

    more = run("train", TRAIN, "-o", out, "--from", model, "--epochs", 3, "--resume", "--json")
    assert [epoch["epoch"] for epoch in more.json["history"]] == [1, 2, 3]
    assert more.json["recipe"]["method"] == "pfe"


def test_the_model_decides_the_network_where_the_data_have_another_recipe(run, model, pictures, tmp_path):
    done = run("train", pictures, "-o", tmp_path / "m", "--method", "ranking", "--from", model, "--epochs", 1, "--json")
    assert done.code == 0, done.err
    assert done.json["recipe"]["backbone"] == json.loads((model / "card.json").read_text())["backbone"]
    assert done.json["recipe"]["height"] == 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "pfe"), "--from MODEL"),
        (("--method", "pfe", "--from", "nowhere"), "nowhere"),
        (("--method", "point", "--from", "model"), "pfe or ranking"),
        (("--method", "pfe", "--from", "model", "--dim", 5), "dim: 16 -> 5"),
        (("--method", "pfe", "--from", "model", "--recipe", "other.toml"), "backbone: lam-fashion -> mlp"),
    ],
)
def test_what_cannot_be_is_one_clear_line(run, model, tmp_path, monkeypatch, words, message):
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "other.toml").write_text('extends = "digits"\nbackbone = "mlp"\n')
    monkeypatch.chdir(tmp_path)
    done = run("train", TRAIN, "-o", "new", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "new").exists()


def test_resume_without_the_model_it_came_from(run, model, tmp_path):
    out = tmp_path / "m"
    assert run("train", TRAIN, "-o", out, "--method", "ranking", "--from", model, "--epochs", 1).code == 0
    lost = run("train", TRAIN, "-o", out, "--epochs", 2, "--resume")
    assert lost.code != 0
    assert "begun from another model" in lost.err


def test_help_names_every_method():
    from howsure.cli.train import METHOD_HELP
    from howsure.training import METHODS

    assert set(METHOD_HELP.replace(";", ",").replace(" with --from.", "").split(", ")) == set(METHODS)
