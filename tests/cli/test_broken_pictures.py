"""A folder with broken files: everything works on the rest, and the report names each of them."""

import shutil
from pathlib import Path

import pytest

from data.pictures import BROKEN
from howsure import data

RECIPE = """
backbone = "lam-fashion"
dim = 4
height = 8
width = 8
channels = 1
pixel_mean = [0.0]
pixel_std = [1.0]
epochs = 1
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """90 digits and a broken file of each of ten kinds; the broken ids with a word of the reason."""
    root = tmp_path_factory.mktemp("broken") / "photos"
    digits = data.load("digits:train@0,1,2,3")
    for i in range(90):
        folder = root / str(digits.labels[i])
        folder.mkdir(parents=True, exist_ok=True)
        digits.image(i).save(folder / f"{i:03d}.png")
    expected = {}
    for i, (kind, (extension, write, reason)) in enumerate(BROKEN.items()):
        write(root / str(i % 4) / f"broken-{i:02d}-{kind}{extension}")
        expected[f"photos/{i % 4}/broken-{i:02d}-{kind}{extension}"] = reason
    return root, expected


def _check(skipped: list[dict[str, str]], expected: dict[str, str]) -> None:
    assert {entry["id"] for entry in skipped} == set(expected)
    assert all(expected[entry["id"]] in entry["reason"] for entry in skipped)


def test_train_index_and_embed_report_exactly_the_broken_ones(run, photos, tmp_path):
    root, expected = photos
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE)
    trained = run("train", root, "-o", tmp_path / "m", "--recipe", recipe, "--json")
    assert trained.code == 0, trained.err
    _check(trained.json["skipped"], expected)
    assert "skipped 10 pictures" in trained.err
    indexed = run("index", root, "-m", tmp_path / "m", "-o", tmp_path / "g", "--json").json
    _check(indexed["skipped"], expected)
    assert indexed["items"] == 90
    embedded = run("embed", tmp_path / "m", root, "-o", tmp_path / "e.npz", "--json").json
    _check(embedded["skipped"], expected)
    assert embedded["items"] == 90


def test_strict_stops_at_the_first(run, photos, model, tmp_path):
    root, _ = photos
    done = run("embed", model, root, "-o", tmp_path / "e.npz", "--strict")
    assert done.code == 2
    assert "broken-" in done.err
    assert not (tmp_path / "e.npz").exists()


def test_nothing_readable_is_an_error(run, model, tmp_path):
    root = tmp_path / "photos" / "a"
    root.mkdir(parents=True)
    (root / "x.png").touch()
    for arguments in (
        ("embed", model, root.parent, "-o", tmp_path / "e.npz"),
        ("index", root.parent, "-m", model, "-o", tmp_path / "g"),
    ):
        done = run(*arguments)
        assert done.code == 2
        assert "empty file" in done.err
    shutil.rmtree(tmp_path / "g")
