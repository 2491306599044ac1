"""Which recipe pictures get that come without one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import howsure
from howsure.backbones import PRETRAINED
from howsure.data import ArrayImages, load
from howsure.errors import InputError
from howsure.recipe import read_recipe, recipe_for
from howsure.training.choice import SAMPLE, TINY, are_photographs, fitting_recipe


def pictures(side: int, *, colour: bool, count: int = 6, wide: int = 1) -> ArrayImages:
    """Noise in blocks, half of the pictures dark and half of them bright."""
    shape = (count, side // 8 + 1, side * wide // 8 + 1, 3) if colour else (count, side // 8 + 1, side * wide // 8 + 1)
    noise = np.random.default_rng(0).integers(0, 128, shape, dtype=np.uint8)
    noise[1::2] += 128
    array = noise.repeat(8, axis=1).repeat(8, axis=2)[:, :side, : side * wide]
    return ArrayImages("mine", tuple(map(str, range(count))), tuple("ab"[i % 2] for i in range(count)), array)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> str:
    """The network for photographs is not installed; what installs it."""
    entry = replace(PRETRAINED[read_recipe("pretrained").backbone], package="nobody-has-this")
    monkeypatch.setitem(PRETRAINED, entry.name, entry)
    return entry.install


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (pictures(200, colour=True), "pretrained"),
        (pictures(TINY + 1, colour=True), "pretrained"),
        (pictures(TINY, colour=True), "default"),
        (pictures(TINY, colour=True, wide=20), "default"),
        (pictures(200, colour=False), "default"),
    ],
)
def test_colour_and_size_decide(images: ArrayImages, expected: str) -> None:
    assert fitting_recipe("photos/", images) == read_recipe(expected)


def test_grey_that_is_stored_as_colour_is_grey() -> None:
    grey = pictures(200, colour=False)
    as_colour = replace(grey, array=np.stack([grey.array] * 3, axis=-1) // 2 + np.arange(3, dtype=np.uint8))
    assert not are_photographs(as_colour)


def test_most_of_a_sample_that_can_be_read_decide(tmp_path: Path) -> None:
    for number in range(3 * SAMPLE):
        file = tmp_path / f"{number:03}.png"
        if number % 3:
            file.write_bytes(b"broken")
        else:
            Image.effect_noise((64, 64), 80).convert("RGB" if number % 4 else "L").save(file)
    assert not are_photographs(load(tmp_path))
    assert not are_photographs(load(tmp_path).subset([1, 2]))  # none can be read: training says so
    for number in range(0, 3 * SAMPLE, 3):
        Image.radial_gradient("L").convert("RGB").save(tmp_path / f"{number:03}.png")
    assert not are_photographs(load(tmp_path))
    for number in range(0, 3 * SAMPLE, 3):
        Image.new("RGB", (64, 64), "teal").save(tmp_path / f"{number:03}.png")
    assert are_photographs(load(tmp_path))


@pytest.mark.parametrize("source", ["cub", "cub:all", "cifar10:test", "market1501@7", "digits"])
def test_a_published_set_is_not_looked_at(source: str) -> None:
    assert fitting_recipe(source, pictures(200, colour=True)) == recipe_for(source)


def test_without_the_weights_training_says_what_installs_them(missing: str, tmp_path: Path) -> None:
    for settings in ({}, {"epochs": 1, "dim": 4}):
        with pytest.raises(InputError, match="weights it starts from") as caught:
            howsure.train(pictures(64, colour=True), out=tmp_path / "m", **settings)
        assert caught.value.fix == missing
    assert not (tmp_path / "m").exists()


def test_a_network_that_is_named_is_taken(missing: str) -> None:
    images = pictures(64, colour=True, count=40)
    model = howsure.train(images, backbone="mlp", height=16, width=16, epochs=1, dim=4, validation_share=0.4)
    assert model.card["backbone"] == "mlp"
    assert "pretrained" not in model.card
    assert howsure.train(images, "default", epochs=1, dim=4, height=32, width=32).card["backbone"] == "resnet"


def test_a_run_that_was_begun_goes_on_as_it_was(missing: str, tmp_path: Path) -> None:
    images = pictures(64, colour=True, count=40)
    howsure.train(images, "default", epochs=1, dim=4, height=32, width=32, out=tmp_path)
    model = howsure.train(images, epochs=2, out=tmp_path, resume=True)
    assert (model.card["backbone"], model.card["dim"]) == ("resnet", 4)
