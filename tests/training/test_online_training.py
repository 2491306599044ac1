"""Training with a posterior that learns along, on digits."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from howsure.data import load
from howsure.embedder import Embedder
from howsure.embeddings import NovelGaussian
from howsure.match import Matcher
from howsure.posteriors.laplace.last_layer import LastLayerLaplace
from howsure.recipe import recipe_for
from howsure.training import Epoch, Step, Trained, run_training
from laws import same

RECIPE = recipe_for("digits").but(backbone="mlp", epochs=6, method="laplace-online")
DIGITS, TEST = load("digits:train"), load("digits:test")


@pytest.fixture(scope="module", autouse=True)
def hasty() -> Iterator[None]:
    """Widths that learn for a moment; how well they do is judged in posteriors/test_learned_variance.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("howsure.posteriors.laplace.learned_variance.STEPS", 50)
        yield


@pytest.fixture(scope="module")
def learned(hasty: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Path]:
    folder = tmp_path_factory.mktemp("online")
    return run_training(DIGITS, RECIPE, out=folder), folder


def recall(embedder: Embedder) -> float:
    mean = embedder.encode(TEST).mean
    nearest = torch.cdist(mean, mean).fill_diagonal_(torch.inf).argmin(1)
    labels = np.array(TEST.labels)
    return float((labels[nearest] == labels).mean())


def test_noise_costs_no_recall(learned: tuple[Trained, Path]) -> None:
    assert recall(learned[0].embedder) > recall(run_training(DIGITS, RECIPE.but(method="point")).embedder) - 0.03


def test_embeddings_tell_pictures_apart_and_what_is_typical(learned: tuple[Trained, Path]) -> None:
    embedder = learned[0].embedder
    assert isinstance(embedder.head, LastLayerLaplace)
    embedding = embedder.encode(TEST)
    assert isinstance(embedding, NovelGaussian)
    assert embedding.uncertainty.std() > 0.1 * embedding.uncertainty.mean()
    held = embedder.card["pictures"]["validation"]
    assert len(embedder.head.usual) == held
    assert (embedding.novelty.diff().abs() > 0).any()
    noise = np.random.default_rng(0).integers(0, 256, (100, 8, 8), dtype=np.uint8)
    strange = embedder.encode(noise)
    assert isinstance(strange, NovelGaussian)
    assert strange.novelty.median() > embedding.novelty.median()


def test_what_is_on_disk_is_what_was_learned(learned: tuple[Trained, Path]) -> None:
    trained, folder = learned
    saved = Embedder.load(folder)
    assert saved.fingerprint == trained.embedder.fingerprint
    assert same(saved.encode(TEST), trained.embedder.encode(TEST))
    assert saved.card["posterior"]["kind"] == "laplace"
    assert Matcher(**saved.card["matcher"]).scale > 0


def test_resumes_bit_for_bit(tmp_path: Path) -> None:
    images, recipe = DIGITS.subset(range(400)), RECIPE.but(epochs=3)
    whole = run_training(images, recipe, out=tmp_path / "whole")

    def stop(event: Step | Epoch) -> None:
        if isinstance(event, Step) and (event.epoch, event.step) == (2, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(images, recipe, out=tmp_path / "stopped", tell=stop)
    torch.manual_seed(99)  # what happens in between must not matter
    resumed = run_training(images, recipe, out=tmp_path / "stopped", resume=True)
    assert resumed.history == whole.history
    for name in ("checkpoint.safetensors", "weights.safetensors"):
        ours, theirs = (load_file(tmp_path / folder / name) for folder in ("stopped", "whole"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert "loss/average.rows" in load_file(tmp_path / "whole" / "checkpoint.safetensors")
    cards = [json.loads((tmp_path / folder / "card.json").read_text()) for folder in ("stopped", "whole")]
    assert cards[0] == cards[1]
