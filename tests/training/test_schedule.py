from pathlib import Path

import numpy as np
import pytest
import torch

from howsure.data import load
from howsure.errors import TrainingError
from howsure.recipe import recipe_for
from howsure.training import Step, run_training
from howsure.training.schedule import learning_rate

RECIPE = recipe_for("digits").but(backbone="mlp", epochs=3, schedule="one-cycle", augment=("flip", "shift"))
DIGITS = load("digits:train").subset(range(300))


def test_a_cycle_rises_to_the_highest_rate_and_falls_to_almost_none() -> None:
    rates = [learning_rate("one-cycle", 0.5, progress=at) for at in np.linspace(0, 1, 101)]
    assert max(rates) == pytest.approx(0.5) == rates[30]
    assert np.all(np.diff(rates[:31]) > 0)
    assert np.all(np.diff(rates[30:]) < 0)
    assert rates[-1] == pytest.approx(0.5e-4)


def test_a_constant_rate_is_constant() -> None:
    assert {learning_rate("constant", 0.5, progress=at) for at in (0.0, 0.4, 1.0)} == {0.5}


def test_the_optimiser_follows_the_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *rest: object) -> object:
        seen.append(self.param_groups[0]["lr"])
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    run_training(DIGITS, RECIPE)
    assert seen[0] == pytest.approx(RECIPE.learning_rate / 25)
    assert max(seen) == pytest.approx(RECIPE.learning_rate, rel=0.05)
    assert seen[-1] < 0.1 * RECIPE.learning_rate


def test_an_augmented_cycle_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = run_training(DIGITS, RECIPE, out=tmp_path / "whole")

    def stop(event: object) -> None:
        if isinstance(event, Step) and (event.epoch, event.step) == (2, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(DIGITS, RECIPE, out=tmp_path / "cut", tell=stop)
    resumed = run_training(DIGITS, RECIPE, out=tmp_path / "cut", resume=True)
    assert resumed.history == whole.history
    assert resumed.embedder.fingerprint == whole.embedder.fingerprint


def test_a_cycle_must_know_its_end(tmp_path: Path) -> None:
    run_training(DIGITS, RECIPE, out=tmp_path)
    with pytest.raises(TrainingError, match="epochs: 3 -> 5"):
        run_training(DIGITS, RECIPE.but(epochs=5), out=tmp_path, resume=True)
