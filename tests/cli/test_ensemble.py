"""Three models as one, from the command line: joined, measured, indexed, searched."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from howsure import Draws, restore


@pytest.fixture(scope="module")
def members(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    from howsure import data
    from howsure.recipe import recipe_for
    from howsure.training import run_training

    root = tmp_path_factory.mktemp("members")
    others = [root / str(seed) for seed in (1, 2)]
    for seed, out in enumerate(others, 1):
        run_training(data.load("digits:train@!8,9"), recipe_for("digits").but(epochs=2, seed=seed), out=out)
    return [model, *others]


def test_from_three_models_to_an_answer(run, members, pictures, tmp_path):
    joined = tmp_path / "joined"
    made = run("ensemble", *members, "--align", "digits:train@!8,9", "-o", joined, "--json").json
    assert (made["members"], made["skipped"]) == (3, [])
    assert made["pictures"] > 600
    assert 0 < made["left_apart"] < 1

    def measured(model):
        done = run("evaluate", model, "digits:test@!8,9", "--ood", "digits:test@8,9", "--json")
        return {name: metric["value"] for name, metric in done.json["metrics"].items()}

    joint, alone = measured(joined), [measured(member) for member in members]
    assert joint["map_at_5"] > np.mean([one["map_at_5"] for one in alone])
    assert joint["ood_auroc_uncertainty"] > 0.6

    file = tmp_path / "e.npz"
    assert run("embed", joined, "digits:test@3", "-o", file, "--json").json["family"] == "draws:point"
    with np.load(file) as stored:
        embedding = restore(str(stored["family"]), {"location": stored["location"]})
    assert isinstance(embedding, Draws)

    assert run("calibrate", joined, "digits:test@!8,9", "--max-error", 0.1, "--confidence", 0.9).code == 0
    gallery = tmp_path / "gallery"
    assert run("index", "digits:train@!8,9", "-m", joined, "-o", gallery, "--json").json["items"] > 600
    found = run("search", gallery, pictures / "3", "-k", 3, "--json").json
    assert np.mean([row["matches"][0]["label"] == "3" for row in found]) > 0.9
    assert np.mean([row["answer"] == "match" for row in found]) > 0.5
    assert all(row["exact"] for row in found)
    assert run("verify", joined, *list((pictures / "3").iterdir())[:2]).code == 0


def test_ensemble_refuses_what_does_not_fit(run, members, tmp_path):
    def failed(*arguments):
        done = run("ensemble", *arguments)
        assert (done.code, done.out) == (2, "")
        assert not (tmp_path / "out").exists()
        return done.err

    where = ("--align", "digits:test", "-o", tmp_path / "out")
    assert "two embedders" in failed(members[0], *where)
    assert "twice" in failed(members[0], members[0], *where)
    assert "nowhere" in failed(members[0], "nowhere", *where)
    assert "--align" in failed(*members, "-o", tmp_path / "out")
    own = Path(shutil.copytree(members[1], tmp_path / "own"))
    assert "already holds a model" in failed(*members, "--align", "digits:test", "-o", own)
