"""Variances learned from the distances within a class."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure import data
from howsure.embedder import Embedder
from howsure.embeddings import Gaussian
from howsure.errors import InputError
from howsure.losses import MutualLikelihood
from howsure.metrics import r_auroc
from howsure.posteriors import laplace
from howsure.posteriors.laplace.learned_variance import LearnedVariance, fit_variance, with_learned_variance
from howsure.recipe import recipe_for
from howsure.training import run_training
from laws import same


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    """Small sets are learned in a fraction of the steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 200)
        patch.setattr("howsure.posteriors.laplace.learned_variance.BATCH", 256)
        yield


def border(count: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Points on a line whose class is clear at the ends and a matter of chance in the middle; a variance that is noise.

    Points of a class lie the farther apart the nearer to the middle, where both classes are.
    """
    rng = np.random.default_rng(seed)
    middle = rng.random(count) < 0.3
    labels = rng.integers(0, 2, count)
    x = np.where(middle, rng.normal(0, 1, count), np.where(labels == 1, 4, -4) + rng.normal(0, 0.1, count))
    mean = torch.from_numpy(np.stack([x, rng.normal(0, 0.1, count)], 1)).float()
    return mean, torch.from_numpy(rng.uniform(0.5, 1, count)).float(), torch.from_numpy(labels)


@pytest.fixture(scope="module")
def at_the_border(brief: None) -> LearnedVariance:
    return fit_variance(*border(1500, seed=0))


def test_it_is_wide_where_mates_are_far_and_fits_new_pairs_better(at_the_border: LearnedVariance) -> None:
    mean, total, labels = border(1000, seed=1)
    variance = at_the_border(mean, total)
    assert variance.shape == (1000, 1)
    middle = mean[:, 0].abs() < 2
    assert variance[middle].median() > 3 * variance[~middle].median()
    loss = MutualLikelihood()
    flat = torch.full((1000, 1), float(variance.mean()))
    assert loss(Gaussian(mean, variance.sqrt()), labels) < loss(Gaussian(mean, flat.sqrt()), labels) - 0.1


def test_a_variance_that_knows_is_listened_to() -> None:
    rng = np.random.default_rng(2)
    noise = np.exp(rng.uniform(-3, 0, 1500))
    labels = torch.from_numpy(np.arange(1500) % 3)
    centres = np.array([[0, 0], [5, 0], [0, 5]])
    mean = torch.from_numpy(centres[labels] + noise[:, None] * rng.normal(size=(1500, 2))).float()
    variance = fit_variance(mean, torch.from_numpy(noise).float(), labels)(mean, torch.from_numpy(noise).float())
    assert np.corrcoef(variance[:, 0].log().numpy(), np.log(noise))[0, 1] > 0.9


def test_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 60)  # past the first look
    first, again = (fit_variance(*border(300, seed=0)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), again.state_dict().values(), strict=True))


def test_few_mates_teach_a_line_and_none_nothing(at_the_border: LearnedVariance) -> None:
    mean, total, labels = border(1500, seed=0)
    few = fit_variance(mean[:40], total[:40], labels[:40])
    assert all((weight == 0).all() for weight in few.network[-1].parameters())
    assert few(mean, total).log().std() < 0.5 < at_the_border(mean, total).log().std()
    with pytest.raises(InputError, match="two of one class"):
        fit_variance(torch.randn(100, 2), torch.rand(100), torch.arange(100))


def test_wild_variances_are_tamed_even_by_few() -> None:
    """Variances over six decades that say nothing make the firm items everybody's neighbours."""
    rng = np.random.default_rng(3)
    labels = torch.from_numpy(np.arange(60) % 6)
    mean = torch.from_numpy(np.eye(6)[labels] + 0.1 * rng.normal(size=(60, 6))).float()
    wild = torch.from_numpy(np.exp(rng.uniform(-7, 7, 60))).float()
    tame = fit_variance(mean, wild, labels)(mean, wild)
    assert tame.max() / tame.min() < 5


@pytest.fixture(scope="module")
def fitted(brief: None) -> Embedder:
    digits = data.load("digits:train")
    recipe = recipe_for("digits").but(backbone="mlp", epochs=3, dim=3, validation_share=0.4)
    return laplace.fit(run_training(digits, recipe).embedder, digits)


def test_a_posterior_post_hoc_learns_it_and_keeps_the_rest(fitted: Embedder, tmp_path: Path) -> None:
    test = data.load("digits:test")
    bare = fitted.with_head(fitted.head.again(ambiguity=None))
    embedding, before = fitted.encode(test), bare.encode(test)
    assert torch.equal(embedding.mean, before.mean)
    assert torch.equal(embedding.novelty, before.novelty)
    assert same(laplace.drawn(fitted, 4).encode(test), laplace.drawn(bare, 4).encode(test))
    gaps = torch.cdist(embedding.mean, embedding.mean).fill_diagonal_(torch.inf)
    labels = np.array(test.labels)
    right = labels[gaps.argmin(1).numpy()] == labels
    assert r_auroc(embedding.uncertainty.numpy(), right) > max(0.6, r_auroc(before.uncertainty.numpy(), right))
    fitted.save(tmp_path)
    assert same(Embedder.load(tmp_path).encode(test), embedding)


def test_what_it_cannot_be_added_to(fitted: Embedder) -> None:
    test = data.load("digits:test")
    for other in (laplace.drawn(fitted, 3), fitted.with_head(fitted.head.single)):
        with pytest.raises(InputError, match="posterior"):
            with_learned_variance(other, test)


def test_online_training_ends_with_it(tmp_path: Path) -> None:
    digits = data.load("digits:train")
    recipe = recipe_for("digits").but(
        backbone="mlp", epochs=1, dim=3, validation_share=0.4, method="laplace-online", learning_rate=1e-4
    )
    done = run_training(digits, recipe, out=tmp_path).embedder
    assert done.head.ambiguity is not None
    assert same(Embedder.load(tmp_path).encode(digits), done.encode(digits))
    again = run_training(digits, recipe, out=tmp_path, resume=True).embedder
    assert same(again.encode(digits), done.encode(digits))
