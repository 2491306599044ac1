"""Batches for a fit: pairs of different pictures, however small the classes are."""

import numpy as np
import pytest
import torch

from howsure import Embedder, InputSpec
from howsure.data import ArrayImages
from howsure.posteriors import laplace
from howsure.posteriors.laplace.base import labelled_batches


def noise(classes: int, each: int) -> ArrayImages:
    """No two pictures alike."""
    count = classes * each
    array = np.random.default_rng(0).integers(0, 256, (count, 4, 4)).astype(np.uint8)
    return ArrayImages("noise", tuple(map(str, range(count))), tuple(str(n % classes) for n in range(count)), array)


@pytest.fixture
def embedder() -> Embedder:
    torch.manual_seed(0)
    return Embedder("mlp", "point", InputSpec(4, 4, 1, (0.0,), (1.0,)), dim=2)


@pytest.mark.parametrize(
    ("classes", "each", "in_a_batch", "of_a_class"),
    [(3, 10, 30, 10), (200, 2, 256, 2), (50, 6, 252, 6), (10, 40, 256, 32)],
)
def test_no_picture_is_its_own_positive(
    embedder: Embedder, classes: int, each: int, in_a_batch: int, of_a_class: int
) -> None:
    for pixels, labels in labelled_batches(embedder, noise(classes, each)):
        assert len(pixels) == in_a_batch
        assert len(pixels.flatten(1).unique(dim=0)) == in_a_batch
        assert set(torch.bincount(labels).tolist()) - {0} == {of_a_class}


def test_few_pictures_count_once(embedder: Embedder) -> None:
    assert laplace.fit_posterior(embedder, noise(3, 10)).card["laplace"]["pictures"] == 30
