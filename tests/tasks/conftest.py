"""Real pictures for the tasks: digits, every third of them spoiled, as one small model sees them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure import data
from howsure.data.corruptions import Corruption, corrupted_set
from howsure.embedder import Embedder
from howsure.embeddings import Embedding
from howsure.recipe import recipe_for
from howsure.training import run_training

KINDS = ("noise", "occlusion", "blur", "resolution")


@dataclass
class Digits:
    embedder: Embedder
    clean: Embedding
    mixed: Embedding  # the same, some of them spoiled
    labels: np.ndarray


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on the training half of the digits, scales and all."""
    out = tmp_path_factory.mktemp("tasks") / "model"
    run_training(data.load("digits:train"), recipe_for("digits").but(method="gaussian", epochs=4), out=out)
    return out


@pytest.fixture(scope="session")
def digits(model: Path) -> Digits:
    """The odd rows of the test half; every choice about the tasks was made on the even ones."""
    test = data.load("digits:test")
    images = test.subset(range(1, len(test), 2))
    embedder = Embedder.load(model)
    clean = embedder.encode(images)
    rng = np.random.default_rng(0)
    kind = np.where(rng.random(len(images)) < 1 / 3, rng.integers(len(KINDS), size=len(images)), -1)
    fields = {name: tensor.clone() for name, tensor in clean.tensors().items()}
    for code, name in enumerate(KINDS):
        rows = np.flatnonzero(kind == code)
        spoiled = embedder.encode(corrupted_set(images.subset(rows), Corruption(name, 4)))
        for field, tensor in spoiled.tensors().items():
            fields[field][torch.from_numpy(rows)] = tensor
    return Digits(embedder, clean, clean.rebuild(fields), np.array(images.labels))
