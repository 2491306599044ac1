"""What four people write: a folder of pictures, vectors, a network of their own, and research."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import howsure
from howsure import InputSpec, data
from howsure.data import ImageSet

DIGITS = [str(digit) for digit in range(10)]


def written(images: ImageSet, folder: Path) -> Path:
    """A folder of folders, as people have them."""
    for row, (name, label) in enumerate(zip(images.ids, images.labels, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        images.image(row).save(folder / str(label) / f"{Path(name).name}-{row}.png")
    return folder


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    train, test = data.load("digits:train"), data.load("digits:test")
    written(train, tmp_path / "photos")
    written(test.subset(range(700)), tmp_path / "held-out")
    test.image(750).save(tmp_path / "new.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_of_pictures(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = howsure.train("photos/", howsure.recipe_for("digits"), backbone="mlp", epochs=6)
    gallery = howsure.Gallery.create("gallery", model)
    gallery.add("photos/")
    gallery.calibrate("held-out/", max_error=0.1)
    for finding in gallery.ask(["new.jpg"]):
        print(finding.answer, finding.matches[0].label)
    assert capsys.readouterr().out.split()[-1] in DIGITS
    gallery.close()
    again = howsure.Gallery.open("gallery")
    assert again.status().stale == ()
    assert again.ask("new.jpg")[0].matches[0].label == finding.matches[0].label
    assert len(again) == len(data.load("photos/"))
    again.close()


def test_vectors_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 16))
    y, y_held_out = np.arange(120) % 30, np.arange(600) % 30
    x, x_held_out, x_new = (
        centres[labels] + 0.4 * rng.normal(size=(len(labels), 16)) for labels in (y, y_held_out, y[:20])
    )
    ids = [f"item {row}" for row in range(120)]
    gallery = howsure.Gallery.create("vectors")
    gallery.add(x, ids=ids, labels=y)
    gallery.calibrate(x_held_out, y_held_out, max_error=0.05)
    findings = gallery.ask(x_new)
    answered = [
        (f.matches[0].label, str(label)) for f, label in zip(findings, y, strict=False) if f.answer.kind == "match"
    ]
    assert len(answered) > 10
    assert np.mean([found == label for found, label in answered]) > 0.9
    gallery.close()


@pytest.mark.parametrize("ends_in", ["an embedding", "features"])
def test_your_own_network(ends_in: str) -> None:
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(64, 32), nn.ReLU()]
    net = nn.Sequential(*layers, *([nn.Linear(32, 6)] if ends_in == "an embedding" else []))
    spec = InputSpec(8, 8, 1, (0.0,), (1.0,))

    def loader(name: str) -> DataLoader:
        pixels = spec.normalise(data.pixels(images := data.load(name), spec).pixels)
        return DataLoader(TensorDataset(pixels, torch.tensor([int(str(label)) for label in images.labels])), 64)

    images = data.load("digits:test").subset(range(50))
    embedder = howsure.Embedder.wrap(net, spec)
    batch = spec.normalise(data.pixels(images, spec).pixels)
    assert torch.allclose(embedder.encode(images).mean, net(batch).detach(), atol=1e-6)
    embedder = howsure.laplace.fit(embedder, loader("digits:train"), held_out=loader("digits:test"))
    belief = embedder.encode(images)
    assert belief.novelty is not None
    assert belief.uncertainty.std() > 0
    assert torch.allclose(belief.mean, net(batch).detach(), atol=1e-5)
    assert embedder.card["matcher"]


def test_a_researcher() -> None:
    known, other = (data.load(f"digits:test@{names}") for names in ("!8,9", "8,9"))
    members = [
        howsure.laplace.fit(
            howsure.train("digits:train@!8,9", backbone="mlp", epochs=2, dim=4, seed=seed),
            data.load("digits:train@!8,9"),
        )
        for seed in (0, 1)
    ]
    embedder = howsure.ensemble.fit(members, data.load("digits:train@!8,9"))
    scores = ["novelty", "ensemble_disagreement", "knn_distance"]
    found = {metric.name: metric for metric in howsure.evaluate(embedder, known, ood=other, scores=scores)}
    for name in scores:
        for measured in ("r_auroc", "ood_auroc", "ood_ap", "ood_fpr95"):
            assert 0 <= found[f"{measured}_{name}"].value <= 1
    assert found["r_auroc_ensemble_disagreement"].value > 0.6
    assert found["ood_auroc_knn_distance"].value > 0.6
    with pytest.raises(howsure.HowsureError, match="score: expected novelty or ambiguity"):
        howsure.evaluate(embedder, known, scores=["noveltee"])
