"""Whatever way a model was made, it knows the pictures that it was shown."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from howsure import data
from howsure.data import ImageSet
from howsure.data.content import SeenContent, content_hashes
from howsure.embedder import Embedder
from howsure.posteriors import dropout, ensemble, laplace
from howsure.recipe import recipe_for
from howsure.training import run_training

TRAIN, TEST = data.load("digits:train"), data.load("digits:test")
RECIPE = recipe_for("digits").but(epochs=1, dim=4)


def content(images: ImageSet, embedder: Embedder) -> set[int]:
    return {*content_hashes(data.pixels(images, embedder.spec).pixels).tolist()}


@pytest.fixture(scope="module")
def trained() -> Embedder:
    return run_training(TRAIN.subset(range(600)), RECIPE).embedder


@pytest.fixture(scope="module")
def bayesian(trained: Embedder) -> Embedder:
    return laplace.fit(trained, TRAIN.subset(range(600)))


def from_another(trained: Embedder) -> Embedder:
    recipe = RECIPE.but(method="pfe", backbone=trained.card["backbone"])
    return run_training(TRAIN.subset(range(500, 800)), recipe, start=trained).embedder


def joined(trained: Embedder) -> Embedder:
    other = run_training(TRAIN.subset(range(400, 700)), RECIPE.but(seed=1)).embedder
    return ensemble.fit([trained, other], TRAIN.subset(range(700, 800)))


# What is made from a model that saw the first 600 pictures, and how many of the 800 in all it has seen then.
WAYS: dict[str, tuple[Callable[[Embedder], Embedder], int]] = {
    "training": (lambda trained: trained, 600),
    "training on top of it": (from_another, 800),
    "dropout": (lambda trained: dropout.fit(trained, 3), 600),
    "an ensemble": (joined, 800),
    "a posterior": (lambda trained: laplace.fit_posterior(trained, TRAIN.subset(range(650))), 650),
    "a posterior by validation": (
        lambda trained: laplace.fit_posterior(
            trained, TRAIN.subset(range(100)), prior="validation", held_out=TRAIN.subset(range(550, 650))
        ),
        650,
    ),
    "a posterior of held-out pictures": (
        lambda trained: laplace.fit(trained, TRAIN.subset(range(100)), held_out=TRAIN.subset(range(600, 700))),
        700,
    ),
    "training online": (
        lambda trained: run_training(TRAIN.subset(range(600)), RECIPE.but(method="laplace-online")).embedder,
        600,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_has_seen_exactly_the_pictures_it_was_shown(way: str, trained: Embedder, tmp_path: Path) -> None:
    make, count = WAYS[way]
    made = make(trained)
    assert {*made.seen.hashes.tolist()} == content(TRAIN.subset(range(count)), made)
    assert made.seen.complete
    made.save(tmp_path)
    assert np.array_equal(Embedder.load(tmp_path).seen.hashes, made.seen.hashes)
    assert len(trained.seen.hashes) == 600, "its source was changed"


def test_a_posterior_again_keeps_what_was_seen(bayesian: Embedder) -> None:
    held_out = TRAIN.subset(range(600, 650))
    for made in (laplace.with_novelty(bayesian, held_out), laplace.with_learned_variance(bayesian, held_out)):
        assert len(made.seen.hashes) == 650
    assert len(laplace.drawn(bayesian, 3).seen.hashes) == 600


def test_of_batches_of_tensors_it_says_that_they_are_not_known(trained: Embedder) -> None:
    pixels = trained.spec.normalise(data.pixels(TEST.subset(range(100)), trained.spec).pixels)
    labels = torch.tensor([int(str(label)) for label in TEST.labels[:100]])
    for made in (
        laplace.fit_posterior(trained, [(pixels, labels)]),
        laplace.fit(trained, TRAIN.subset(range(100)), held_out=[(pixels, labels)]),
    ):
        assert not made.seen.complete
        assert len(made.seen.hashes) == 600


def test_of_a_network_of_ones_own_it_knows_what_was_fitted() -> None:
    torch.manual_seed(0)
    wrapped = Embedder.wrap(nn.Sequential(nn.Flatten(), nn.Linear(64, 8)), data.InputSpec(8, 8, 1, (0.0,), (1.0,)))
    assert (len(wrapped.seen.hashes), wrapped.seen.complete) == (0, False)
    fitted = laplace.fit_posterior(wrapped, TRAIN.subset(range(300)))
    assert (len(fitted.seen.hashes), fitted.seen.complete) == (300, False)


def test_a_run_that_goes_on_keeps_what_it_saw_before(tmp_path: Path) -> None:
    run_training(TRAIN.subset(range(600)), RECIPE, out=tmp_path)
    others = TRAIN.subset(range(600)).array.copy()
    others[:10] = TEST.array[:10]
    changed = type(TRAIN)(TRAIN.name, TRAIN.ids[:600], TRAIN.labels[:600], others)
    done = run_training(changed, RECIPE.but(epochs=2), out=tmp_path, resume=True).embedder
    assert len(done.seen.hashes) == 610
    assert len(Embedder.load(tmp_path).seen.hashes) in (600, 610)  # whichever epoch was the best


def test_what_was_not_shown_was_not_seen(trained: Embedder) -> None:
    seen: SeenContent = trained.seen
    assert not seen.holds(np.array([*content(TEST, trained)])).any()
