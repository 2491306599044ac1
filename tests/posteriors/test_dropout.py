"""Dropout as a posterior: a draw is one network for all pictures, the draws are those of dropout, and they are kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from howsure.compare import rms_distance
from howsure.data import InputSpec, load
from howsure.embedder import Embedder, read_card
from howsure.embeddings import Draws, cat
from howsure.errors import InputError, ModelError
from howsure.files import sealed
from howsure.heads import HEADS, FreePointHead
from howsure.posteriors import dropout
from howsure.recipe import recipe_for
from howsure.training import run_training
from laws import same

SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
PICTURES = np.random.default_rng(0).integers(0, 256, (9, 8, 8), dtype=np.uint8)


def embedder(head: str = "point") -> Embedder:
    torch.manual_seed(0)
    return Embedder("mlp", head, SPEC, dim=4).eval()


def layered() -> Embedder:
    """A network of the user's own with both kinds of dropout layers."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(216, 20), nn.Dropout(0.25)
    )
    return Embedder(network, FreePointHead(20, 4), SPEC, dim=4).eval()


def drawn(embedding: object) -> Draws:
    assert isinstance(embedding, Draws)
    return embedding


@pytest.mark.parametrize("head", HEADS)
def test_a_draw_is_one_network_for_all_pictures(head: str) -> None:
    plain = embedder(head)
    many = dropout.fit(plain, 5, rate=0.3)
    embedding = drawn(many.encode(PICTURES))
    features = plain.backbone(SPEC.normalise(torch.from_numpy(PICTURES[:, None]))).detach()
    assert embedding.family == f"draws:{plain.encode(PICTURES).family}"
    for kept, draw in zip(many.head.kept, embedding.by_draw(), strict=True):
        by_hand = plain.head(features * kept / 0.7).detach()
        for name, tensor in by_hand.tensors().items():
            assert torch.allclose(draw.tensors()[name], tensor, atol=1e-6)
    one_by_one = cat([many.encode(PICTURES[i : i + 1]) for i in range(len(PICTURES))])
    for name, tensor in one_by_one.tensors().items():
        assert torch.allclose(tensor, embedding.tensors()[name], atol=1e-6)


def test_what_the_head_says_and_what_the_draws_disagree_about_come_apart() -> None:
    embedding = drawn(dropout.fit(embedder("gaussian"), 7).encode(PICTURES))
    draws = embedding.by_draw()
    means = torch.stack([draw.mean for draw in draws])
    assert torch.allclose(embedding.aleatoric, torch.stack([draw.variance for draw in draws]).mean(0))
    assert torch.allclose(embedding.epistemic, means.var(0, correction=0), atol=1e-7)
    assert (embedding.aleatoric > 0).all()
    assert (embedding.epistemic.sum(-1) > 0).all()
    assert not drawn(dropout.fit(embedder("point"), 7).encode(PICTURES)).aleatoric.any()


def test_draws_are_those_of_dropout() -> None:
    """Against torch's own layers, in training mode, on one picture."""
    many = dropout.fit(layered(), 3000, rate=0.4)
    embedding = drawn(many.encode(PICTURES[:1]))
    reference = layered()
    pixels = SPEC.normalise(torch.from_numpy(PICTURES[:1, None])).expand(3000, -1, -1, -1)
    with torch.no_grad():
        features = nn.functional.dropout(reference.backbone.train()(pixels), 0.4)
        seen = reference.head(features).mean
    deviation = seen.std(0)
    assert ((embedding.mean[0] - seen.mean(0)).abs() < 5 * deviation * (2 / 3000) ** 0.5).all()
    assert torch.allclose(embedding.variance[0], seen.var(0), rtol=0.15)


def test_masks_of_layers_are_shared_by_pictures_and_drop_whole_channels() -> None:
    many = dropout.fit(layered(), 4, rate=0.0)
    assert many.head.layers == {"2": [6, 1, 1], "5": [20]}
    assert many.head.kept.all()
    embedding = drawn(many.encode(PICTURES))
    one_by_one = cat([many.encode(PICTURES[i : i + 1]) for i in range(len(PICTURES))])
    assert torch.allclose(embedding.mean, one_by_one.mean, atol=1e-6)
    assert (embedding.epistemic.sum(-1) > 0).all()
    # A distance of a picture to itself is 0 in every draw, as it is in one network.
    assert torch.allclose(rms_distance(embedding, one_by_one, paired=True), torch.zeros(len(PICTURES)), atol=1e-5)


def test_the_network_is_left_alone() -> None:
    plain = layered()
    before = plain.encode(PICTURES)
    many = dropout.fit(plain, 3)
    many.encode(PICTURES)
    assert same(plain.encode(PICTURES), before)
    assert many.card["origin"] == plain.fingerprint
    assert many.card["matcher"] is None  # distances are no longer those it was fitted on


@pytest.mark.parametrize("head", HEADS)
def test_saved_and_loaded_bit_for_bit(head: str, tmp_path: Path) -> None:
    many = dropout.fit(embedder(head), 3, seed=5)
    many.save(tmp_path)
    again = Embedder.load(tmp_path)
    assert same(again.encode(PICTURES), many.encode(PICTURES))
    assert (again.fingerprint, again.card["head"], again.card["dim"]) == (many.fingerprint, head, 4)
    assert again.card["posterior"] == many.card["posterior"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.json", "weights.safetensors"]


def test_a_network_of_your_own_is_loaded_with_its_masks(tmp_path: Path) -> None:
    many = dropout.fit(layered(), 3)
    many.save(tmp_path)
    fresh = layered()
    again = Embedder.load(tmp_path, backbone=fresh.backbone, head=fresh.head)
    assert same(again.encode(PICTURES), many.encode(PICTURES))
    with pytest.raises(ModelError, match="backbone"):
        Embedder.load(tmp_path)


def test_other_masks_are_another_model() -> None:
    """Else a gallery would be searched with networks that did not make it."""
    plain = embedder()
    prints = {dropout.fit(plain, draws, seed=seed).fingerprint for draws in (3, 4) for seed in (0, 1)}
    assert len(prints) == 4
    assert dropout.fit(plain, 3, seed=1).fingerprint in prints


def test_drawing_again_replaces_the_draws_and_keeps_the_rate() -> None:
    plain = layered()
    once = dropout.fit(plain, 3, rate=0.35)
    again = dropout.fit(once, 6, seed=2)
    assert again.head.rate == 0.35
    assert same(again.encode(PICTURES), dropout.fit(plain, 6, rate=0.35, seed=2).encode(PICTURES))


def test_training_with_it_gives_draws_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    images = load("digits:train").subset(range(200))
    recipe = recipe_for("digits").but(method="dropout", backbone="mlp", dim=4, epochs=2)
    whole = run_training(images, recipe).embedder
    run_training(images, recipe.but(epochs=1), out=tmp_path)
    run_training(images, recipe, out=tmp_path, resume=True)
    again = Embedder.load(tmp_path)
    embedding = again.encode(PICTURES)
    assert drawn(embedding).atoms.family == "point"
    assert (embedding.uncertainty > 0).all()
    assert same(embedding, whole.encode(PICTURES))
    assert again.card["matcher"] is not None
    assert "origin" not in again.card


def test_training_sees_single_embeddings_with_masks_of_their_own() -> None:
    many = dropout.fit(embedder(), 3, rate=0.5).train()
    torch.manual_seed(1)
    alike = many(SPEC.normalise(torch.from_numpy(PICTURES[:1, None])).expand(6, -1, -1, -1))
    assert alike.family == "point"
    assert len(torch.unique(alike.mean, dim=0)) == 6


class _TwoSizes(nn.Module):
    """One dropout layer at two positions."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.narrow = nn.Dropout(0.5), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.narrow(self.drop(x.flatten(1))))


@pytest.mark.parametrize(
    ("network", "options", "word"),
    [
        (None, {"draws": 0}, "draws"),
        (None, {"rate": 1.0}, "features"),
        (None, {"rate": -0.1}, "features"),
        (None, {"rate": 0.0}, "above 0 somewhere"),
        (nn.Sequential(nn.Flatten(), nn.Dropout(1.0)), {}, "rate of 1"),
        (nn.Sequential(nn.Flatten(), nn.AlphaDropout(0.1)), {}, "AlphaDropout"),
        (_TwoSizes(), {}, "same shape"),
    ],
)
def test_what_cannot_be_dropped(network: nn.Module | None, options: dict[str, float], word: str) -> None:
    start = embedder() if network is None else Embedder(network, "point", SPEC, dim=4)
    with pytest.raises(InputError, match=word):
        dropout.fit(start, **options)  # type: ignore[arg-type]


def test_a_card_with_an_unknown_posterior_says_so(tmp_path: Path) -> None:
    dropout.fit(embedder(), 3).save(tmp_path)
    card = read_card(tmp_path)
    card["posterior"]["kind"] = "dreams"
    (tmp_path / "card.json").write_text(json.dumps(sealed(card)))
    with pytest.raises(ModelError, match="laplace or dropout or ensemble"):
        Embedder.load(tmp_path)


@pytest.mark.parametrize("plain", [embedder("gaussian"), layered()], ids=["features", "layers"])
def test_the_whole_network_is_what_the_draws_are_parts_of(plain: Embedder) -> None:
    many = dropout.fit(plain, 3, rate=0.3)
    backbone, head = many.head.network(many.backbone)
    assert same(many.with_head(head, backbone=backbone).encode(PICTURES), plain.encode(PICTURES))
    assert isinstance(many.encode(PICTURES), Draws), "its source was changed"
