"""What earlier versions wrote still opens: models under their old names, a gallery, its policy, an archive."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from howsure import Embedder, Gallery, Policy, data
from howsure.errors import ModelError
from howsure.index import connect, import_gallery

WRITTEN = Path(__file__).parent / "old_formats"  # by version 0.1.0, from a network of random weights
EXPECTED = json.loads((WRITTEN / "expected.json").read_text())


def loaded(name: str) -> Embedder:
    return Embedder.load(WRITTEN / name, backbone=nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh()))


@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - {"answers"}))
def test_a_model_opens_under_its_old_fingerprint_and_says_the_same(name: str) -> None:
    model, expected = loaded(name), EXPECTED[name]
    assert model.fingerprint == expected["fingerprint"]
    embedding = model.encode(data.load("digits:test").subset(range(5)))
    assert embedding.family == expected["family"]
    assert torch.allclose(embedding.mean, torch.tensor(expected["mean"]), atol=1e-5)
    assert torch.allclose(embedding.uncertainty, torch.tensor(expected["uncertainty"]), rtol=1e-4)


def test_a_gallery_opens_and_finds_what_it_found(tmp_path: Path) -> None:
    shutil.copytree(WRITTEN / "gallery", tmp_path / "gallery")
    model = loaded("last-full")
    with Gallery.open(tmp_path / "gallery") as gallery:
        matches = gallery.index.search(model.encode(data.load("digits:test").subset(range(5))), 3)
    assert matches.ids.tolist() == [ids for _, _, ids in EXPECTED["answers"]]


def test_a_policy_of_an_earlier_version_says_what_to_do() -> None:
    """It promised another thing: one error rate of matches and unknowns together."""
    with pytest.raises(ModelError, match=r"got one of an earlier version; run howsure calibrate again"):
        Policy.load(WRITTEN / "last-full", model=loaded("last-full").fingerprint)


def test_an_archive_is_imported(tmp_path: Path) -> None:
    with connect(tmp_path / "imported", create=True) as index:
        assert import_gallery(WRITTEN / "gallery.npz", index) == len(index) == 100
        assert index.labels(["digits/0695"])[0] in "0123"
