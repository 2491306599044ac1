"""Uncertainty added to a existing model: its means stay, bit for bit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from howsure import metrics
from howsure.data import InputSpec, load
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Point
from howsure.errors import InputError, TrainingError
from howsure.recipe import recipe_for
from howsure.training import Epoch, Step, run_training
from howsure.training.from_model import network_of, settle_scales

RECIPE = recipe_for("digits").but(backbone="mlp", epochs=4)
DIGITS = load("digits:train")
TEST = load("digits:test")


@pytest.fixture(scope="module")
def models() -> dict[str, Embedder]:
    """One model of each kind to start from."""
    return {method: run_training(DIGITS, RECIPE.but(method=method)).embedder for method in ("point", "gaussian")}


@pytest.mark.parametrize("kind", ["point", "gaussian"])
@pytest.mark.parametrize("method", ["pfe", "ranking"])
def test_means_stay_bit_for_bit_and_scales_learn(kind: str, method: str, models: dict[str, Embedder]) -> None:
    start = models[kind]
    before = start.fingerprint
    done = run_training(DIGITS, RECIPE.but(method=method, epochs=3, learning_rate=0.01), start=start)
    assert start.fingerprint == before
    assert torch.equal(done.embedder.encode(TEST).mean, start.encode(TEST).mean)
    assert done.embedder.card["origin"] == before
    assert done.embedder.card["head"] == "gaussian"
    assert done.history[-1].loss < done.history[0].loss
    assert len({epoch.recall_at_1 for epoch in done.history}) == 1
    assert done.embedder.card["validation"]["epoch"] == 3  # no early epoch is better: the last one has learned most

    embedding = done.embedder.encode(TEST)
    distance = torch.cdist(embedding.mean, embedding.mean).fill_diagonal_(torch.inf)
    labels = np.array(TEST.labels)
    wrong = labels[distance.argmin(1).numpy()] != labels
    assert metrics.auroc(wrong, embedding.uncertainty.numpy()) > 0.65


def test_the_level_of_the_scales_is_where_mutual_likelihood_is_best(models: dict[str, Embedder]) -> None:
    from howsure.losses import MutualLikelihood

    start = Embedder("mlp", "gaussian", models["point"].spec, dim=16)
    pixels = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40) % 5
    settle_scales(start, pixels, labels)

    def loss(factor: float) -> float:
        embedding = start.encode(pixels)
        return MutualLikelihood()(
            embedding.rebuild(embedding.tensors() | {"scale": embedding.scale * factor**0.5}), labels
        ).item()

    assert loss(1) < min(loss(0.9), loss(1.1))


class _Body(nn.Module):
    """A backbone of one's own, with batch norm and dropout: the two layers that a frozen network must keep in eval."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5))
        self.modes: set[bool] = set()

    def forward(self, pixels: Tensor) -> Tensor:
        self.modes.add(self.training)
        return self.layers(pixels)


def test_batch_norm_and_dropout_of_an_external_backbone_stay_in_eval() -> None:
    torch.manual_seed(0)
    start = Embedder(_Body(), "point", InputSpec(8, 8, 1, (0.0,), (1.0,)), dim=16).eval()
    start.backbone.layers[2].running_mean.fill_(0.3)  # type: ignore[index,union-attr,operator]
    done = run_training(DIGITS, RECIPE.but(method="pfe", epochs=2), start=start).embedder
    assert done.backbone is not start.backbone
    kept, given = done.backbone.state_dict(), start.backbone.state_dict()
    assert all(torch.equal(kept[name], given[name]) for name in given)
    assert done.backbone.modes == {False}
    assert torch.equal(done.encode(TEST).mean, start.encode(TEST).mean)


def test_only_the_scales_are_trained(models: dict[str, Embedder]) -> None:
    done = run_training(DIGITS, RECIPE.but(method="pfe", epochs=1), start=models["gaussian"]).embedder
    ours, theirs = done.state_dict(), models["gaussian"].state_dict()
    changed = {name for name in ours if not torch.equal(ours[name], theirs[name])}
    assert changed == {"head.log_variance.weight", "head.log_variance.bias"}


def test_a_stopped_run_goes_on_bit_for_bit(models: dict[str, Embedder], tmp_path: Path) -> None:
    recipe = RECIPE.but(method="ranking")
    whole = run_training(DIGITS, recipe, out=tmp_path / "whole", start=models["point"])

    def stop(event: Step | Epoch) -> None:
        if isinstance(event, Step) and (event.epoch, event.step) == (3, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(DIGITS, recipe, out=tmp_path / "stopped", start=models["point"], tell=stop)
    torch.manual_seed(99)
    resumed = run_training(DIGITS, recipe, out=tmp_path / "stopped", resume=True, start=models["point"])
    assert resumed.history == whole.history
    assert resumed.embedder.fingerprint == whole.embedder.fingerprint
    cards = [json.loads((tmp_path / name / "card.json").read_text()) for name in ("whole", "stopped")]
    assert cards[0] == cards[1]
    assert cards[0]["origin"] == models["point"].fingerprint
    for start in (models["gaussian"], None):
        with pytest.raises(TrainingError, match="begun from another model"):
            run_training(DIGITS, recipe, out=tmp_path / "stopped", resume=True, start=start)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 8}, "dim: 16 -> 8"),
        ({"backbone": "lam-fashion"}, "backbone: mlp -> lam-fashion"),
        ({"height": 16}, "height: 8 -> 16"),
        ({"pixel_mean": (0.5,)}, "pixel_mean"),
        ({"method": "point"}, "pfe or ranking"),
        ({"method": "mc-infonce"}, "pfe or ranking"),
    ],
)
def test_what_does_not_fit_the_model_is_named(
    change: dict[str, object], message: str, models: dict[str, Embedder], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run_training(DIGITS, RECIPE.but(**({"method": "pfe"} | change)), start=models["point"], out=tmp_path / "model")
    assert not (tmp_path / "model").exists()


class _Elsewhere(nn.Module):
    """A head with a layer of the same name that gives means that no gaussian head would."""

    def __init__(self) -> None:
        super().__init__()
        self.location = nn.Linear(64, 16)

    def forward(self, features: Tensor) -> Embedding:
        return Point(self.location(features))


def test_a_head_whose_means_cannot_be_kept_is_refused() -> None:
    start = Embedder("mlp", _Elsewhere(), InputSpec(8, 8, 1, (0.0,), (1.0,))).eval()
    with pytest.raises(InputError, match="means a gaussian head can keep"):
        run_training(DIGITS, RECIPE.but(method="pfe"), start=start)


def test_a_model_with_one_point_for_all_is_refused(models: dict[str, Embedder]) -> None:
    start = Embedder("mlp", "point", models["point"].spec, dim=16).eval()
    nn.init.zeros_(start.head.location.weight)  # type: ignore[union-attr,arg-type]
    with pytest.raises(InputError, match="same point"):
        run_training(DIGITS, RECIPE.but(method="pfe"), start=start)


def test_pfe_alone_says_that_it_needs_a_model() -> None:
    with pytest.raises(InputError, match="a model to start from"):
        run_training(DIGITS, RECIPE.but(method="pfe"))


def test_a_model_decides_the_keys_of_its_network(models: dict[str, Embedder]) -> None:
    recipe = recipe_for("fashion-mnist").but(**network_of(models["point"]))
    assert (recipe.backbone, recipe.dim, recipe.height, recipe.width) == ("mlp", 16, 8, 8)


@pytest.mark.parametrize("method", ["ranking", "mc-infonce"])
def test_the_methods_also_train_from_pictures_alone(method: str) -> None:
    done = run_training(DIGITS, RECIPE.but(method=method, epochs=12))
    assert done.history[-1].recall_at_1 > 0.8
    assert done.history[-1].loss < done.history[0].loss
    assert "origin" not in done.embedder.card
    assert done.embedder.encode(TEST).uncertainty.std() > 0
