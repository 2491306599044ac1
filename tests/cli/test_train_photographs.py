"""howsure train DATA without a recipe: photographs get a pretrained network, and it says so."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from howsure.backbones import PRETRAINED
from howsure.recipe import read_recipe

ENTRY = PRETRAINED[read_recipe("pretrained").backbone]


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Two classes of twelve: plain red or blue, each of another brightness."""
    for name, channel in (("red", 0), ("blue", 2)):
        (tmp_path / "photographs" / name).mkdir(parents=True)
        for number in range(12):
            colour = [0, 0, 0]
            colour[channel] = 100 + 10 * number
            Image.new("RGB", (90, 60), tuple(colour)).save(tmp_path / "photographs" / name / f"{number}.png")
    return tmp_path / "photographs"


@pytest.mark.skipif(not ENTRY.installed, reason="the extra `pretrained` is not installed")
def test_photographs_get_a_pretrained_network(run, photographs: Path, tmp_path: Path):
    done = run("train", photographs, "-o", tmp_path / "m", "--epochs", 1, "--json")
    assert done.code == 0
    assert done.json["recipe"] == read_recipe("pretrained").but(epochs=1).model_dump(mode="json")
    assert [line for line in done.err.splitlines() if "--recipe default" in line and ENTRY.name in line]


def test_without_its_weights_it_is_an_error_with_one_pip_line(run, photographs: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(PRETRAINED, ENTRY.name, replace(ENTRY, package="nobody-has-this"))
    done = run("train", photographs, "-o", tmp_path / "m")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].endswith("pip install nobody-has-this==0.1.0")
    assert not (tmp_path / "m").exists()
    small = ("--recipe", "default", "--epochs", 1)
    assert run("train", photographs, "-o", tmp_path / "m", *small).code == 0
    more = run("train", photographs, "-o", tmp_path / "m", "--resume", "--epochs", 2, "--json")
    assert more.json["recipe"]["backbone"] == "resnet"
