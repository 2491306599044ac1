"""A model on disk: two files without pickle, bit for bit, and every kind of damage explained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure import __version__
from howsure.data import InputSpec
from howsure.embedder import Embedder, read_card
from howsure.errors import ModelError
from howsure.heads import HEADS
from laws import same

SPEC = InputSpec(8, 8, 1, (0.2,), (0.5,))
PICTURES = np.random.default_rng(0).integers(0, 256, (7, 8, 8), dtype=np.uint8)


@pytest.fixture
def embedder() -> Embedder:
    return Embedder("mlp", "gaussian", SPEC, dim=4, card={"classes": ["a", "b"]})


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("backbone", ["mlp", "lam-fashion", "resnet"])
def test_round_trip_is_bit_exact(backbone: str, head: str, tmp_path: Path) -> None:
    embedder = Embedder(backbone, head, SPEC, dim=4)
    embedder.save(tmp_path)
    again = Embedder.load(tmp_path)
    before, after = embedder.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert again.fingerprint == embedder.fingerprint
    assert same(again.encode(PICTURES), embedder.encode(PICTURES))
    assert not again.training
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "weights.safetensors").read_bytes() == (tmp_path / "weights.safetensors").read_bytes()


def test_card(embedder: Embedder, tmp_path: Path) -> None:
    embedder.save(tmp_path)
    card = read_card(tmp_path)
    assert card["input"] == SPEC.to_json()
    assert (card["backbone"], card["head"], card["dim"]) == ("mlp", "gaussian", 4)
    assert card["classes"] == ["a", "b"]
    assert card["howsure"] == __version__
    assert card["torch"] == torch.__version__
    assert card["fingerprint"] == embedder.fingerprint
    assert Embedder.load(tmp_path).card == card


def test_a_model_is_two_files_without_pickle(embedder: Embedder, tmp_path: Path) -> None:
    embedder.save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.json", "weights.safetensors"]
    content = (tmp_path / "weights.safetensors").read_bytes()
    header = int.from_bytes(content[:8], "little")
    named = json.loads(content[8 : 8 + header])
    assert set(named) - {"__metadata__"} == set(embedder.state_dict())
    for file in tmp_path.iterdir():
        head = file.read_bytes()[:4]
        assert not head.startswith((b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"))


def test_fingerprint_names_the_weights(embedder: Embedder) -> None:
    before = embedder.fingerprint
    assert embedder.fingerprint == before
    with torch.no_grad():
        embedder.head.location.bias[0] += 1e-6
    assert embedder.fingerprint != before


def test_other_files_stay(embedder: Embedder, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{}")
    embedder.save(tmp_path)
    assert (tmp_path / "policy.json").read_text() == "{}"


def _truncate(folder: Path) -> None:
    file = folder / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def _flip(folder: Path) -> None:
    file = folder / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def _card(folder: Path, **changes: object) -> None:
    file = folder / "card.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


DAMAGE = {
    "weights truncated": (_truncate, "weights of"),
    "weights changed": (_flip, "not the ones the card names"),
    "weights empty": (lambda folder: (folder / "weights.safetensors").write_bytes(b""), "weights of"),
    "weights missing": (lambda folder: (folder / "weights.safetensors").unlink(), "weights of"),
    "card missing": (lambda folder: (folder / "card.json").unlink(), "howsure train"),
    "card cut": (lambda folder: (folder / "card.json").write_text('{"format'), "expected JSON"),
    "card of another kind": (lambda folder: (folder / "card.json").write_text("[]"), "format 1"),
    "card in no encoding": (lambda folder: (folder / "card.json").write_bytes(b"\xff\xff"), "expected JSON"),
    "newer format": (lambda folder: _card(folder, format=2), "version that wrote it"),
    "another size": (lambda folder: _card(folder, dim=5), "size mismatch"),
    "unknown backbone": (lambda folder: _card(folder, backbone="vit"), "'vit'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_explained(damage: str, embedder: Embedder, tmp_path: Path) -> None:
    embedder.save(tmp_path)
    harm, message = DAMAGE[damage]
    harm(tmp_path)
    with pytest.raises(ModelError, match=message) as caught:
        Embedder.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_no_model_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file", tmp_path):
        with pytest.raises(ModelError, match="howsure train"):
            Embedder.load(path)
