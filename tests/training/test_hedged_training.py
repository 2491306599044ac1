"""Small real runs of the hedged methods on digits."""

from pathlib import Path

import numpy as np
import pytest
import torch

from howsure.data import load
from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.losses import Hedged
from howsure.match import Matcher, expected_match_probability, self_mismatch
from howsure.recipe import recipe_for
from howsure.training import run_training
from howsure.training.methods import Setting, method_named

RECIPE = recipe_for("digits").but(backbone="mlp", dim=3, epochs=5, learning_rate=3e-3)
DIGITS, TEST = load("digits:train"), load("digits:test")


@pytest.mark.parametrize(
    ("method", "family"), [("soft-contrastive", "point"), ("hedged", "gaussian"), ("hedged-2", "mixture")]
)
def test_learns_digits_and_its_link(method: str, family: str, tmp_path: Path) -> None:
    trained = run_training(DIGITS, RECIPE.but(method=method), out=tmp_path)
    assert trained.history[-1].recall_at_1 > 0.8
    assert trained.history[-1].loss < trained.history[0].loss
    embedding = trained.embedder.encode(TEST)
    assert embedding.family == family

    link = Matcher(**Embedder.load(tmp_path).card["link"])
    labels = np.array(TEST.labels[:200])
    same = torch.from_numpy(labels[:, None] == labels)
    p = expected_match_probability(link, embedding[:200], embedding[:200])
    assert p[same].mean() > 0.6
    assert p[~same].mean() < 0.2
    assert ((self_mismatch(link, embedding) > 0) & (self_mismatch(link, embedding) < 1)).all()


def test_other_losses_learn_no_link() -> None:
    assert run_training(DIGITS, RECIPE.but(epochs=1)).embedder.card["link"] is None


def test_options_are_for_the_loss_that_the_recipe_names() -> None:
    options = {"objective": "elbo", "evaluation": "samples", "samples": 4, "pairs": 50}
    recipe = RECIPE.but(method="hedged-2", loss="hedged", loss_options=options)
    made = method_named("hedged-2").loss(Setting(recipe, classes=10, features=64))
    assert isinstance(made, Hedged)
    assert {name: getattr(made, name) for name in options} == options
    of_another = RECIPE.but(method="hedged", loss="contrastive", loss_options={"power": 1})
    method_named("hedged").loss(Setting(of_another, classes=10, features=64))
    wrong = RECIPE.but(method="hedged", loss="hedged", loss_options={"margin": 1})
    with pytest.raises(InputError, match="options of Hedged"):
        method_named("hedged").loss(Setting(wrong, classes=10, features=64))
