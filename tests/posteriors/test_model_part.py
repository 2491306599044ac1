"""Epistemic and aleatoric parts of an uncertainty, for each posterior that separates them."""

import numpy as np
import pytest
import torch

from howsure.data import InputSpec
from howsure.embedder import Embedder
from howsure.embeddings import Draws
from howsure.posteriors import dropout, ensemble, laplace
from howsure.posteriors.laplace.learned_variance import with_learned_variance

SPEC = InputSpec(8, 8, 1, (0.0,), (1.0,))
PICTURES = np.random.default_rng(0).integers(0, 256, (24, 8, 8), dtype=np.uint8)
PIXELS = torch.from_numpy(PICTURES)[:, None] / 255
BATCHES = [(PIXELS, torch.arange(24) % 4)]


def network(head: str, seed: int = 0) -> Embedder:
    torch.manual_seed(seed)
    return Embedder("mlp", head, SPEC, dim=3).eval()


def split(embedder: Embedder) -> tuple[torch.Tensor, torch.Tensor]:
    """The parts of picture and model; the embeddings are those of `encode`."""
    embedding, model = embedder.encode_split(PICTURES, batch=10)
    assert torch.equal(embedding.uncertainty, embedder.encode(PICTURES, batch=10).uncertainty)
    assert model is not None
    assert model.shape == (24,)
    return embedding.uncertainty - model, model


@pytest.mark.parametrize("head", ["gaussian", "hedged", "hedged-2", "vmf", "norm"])
def test_one_network_speaks_of_the_picture_alone(head: str) -> None:
    picture, model = split(network(head))
    assert (model == 0).all()
    assert (picture > 0).all()


def test_a_point_has_nothing_to_split() -> None:
    picture, model = split(network("point"))
    assert (picture == 0).all()
    assert (model == 0).all()


def test_members_that_are_points_disagree_as_models() -> None:
    picture, model = split(ensemble.fit([network("point", seed) for seed in range(3)], PICTURES))
    assert (model > 0).all()
    torch.testing.assert_close(picture, torch.zeros(24))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ensemble.fit([network("gaussian", seed) for seed in range(3)], PICTURES),
        lambda: dropout.fit(network("gaussian"), 4, rate=0.2),
        lambda: laplace.drawn(laplace.fit_posterior(network("gaussian"), BATCHES), 5),
        lambda: laplace.drawn(laplace.fit_posterior(network("gaussian"), BATCHES, structure="diagonal", prior=1e4), 5),
    ],
    ids=["ensemble", "dropout", "last-layer", "whole-network"],
)
def test_draws_split_as_the_law_of_total_variance_says(make) -> None:
    embedder = make()
    embedding = embedder.encode(PICTURES, batch=10)
    assert isinstance(embedding, Draws)
    picture, model = split(embedder)
    torch.testing.assert_close(model, embedding.epistemic.sum(-1), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(picture, embedding.aleatoric.sum(-1), rtol=1e-4, atol=1e-6)
    assert (picture > 0).all()
    # A embedding that was stored says as much as one that was just made.
    torch.testing.assert_close(embedder.model_part(embedding), model, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("structure", ["last-full", "last-diagonal", "diagonal"])
def test_a_posterior_over_points_is_all_about_the_model(structure: laplace.Structure) -> None:
    embedder = laplace.fit_posterior(network("point"), BATCHES, structure=structure, prior=1e3)
    picture, model = split(embedder)
    assert (picture == 0).all()
    assert (model > 0).all()
    assert embedder.model_part(embedder.encode(PICTURES)) is None  # not without the picture


@pytest.mark.parametrize("structure", ["last-full", "last-diagonal", "diagonal"])
def test_a_posterior_over_gaussians_adds_the_weights_to_what_the_picture_had(structure: laplace.Structure) -> None:
    plain = network("gaussian")
    picture, model = split(laplace.fit_posterior(plain, BATCHES, structure=structure, prior=1e3))
    torch.testing.assert_close(picture, plain.encode(PICTURES).uncertainty, rtol=1e-3, atol=1e-6)
    assert (model > 0).all()


def test_a_learned_width_does_not_come_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "howsure.posteriors.laplace.learned_variance.STEPS", 20
    )  # how well it learns is tested elsewhere
    embedder = with_learned_variance(laplace.fit_posterior(network("point"), BATCHES), BATCHES)
    assert embedder.encode_split(PICTURES)[1] is None
