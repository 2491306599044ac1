"""A model on disk: files without pickle, bit for bit, and every kind of damage explained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from howsure import __version__
from howsure.data import InputSpec
from howsure.data.content import SEEN_FILE, SeenContent
from howsure.embedder import Embedder, read_card
from howsure.errors import ModelError
from howsure.files import sealed
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
    file.write_text(json.dumps(sealed(json.loads(file.read_text()) | changes)))


def _replace(folder: Path, old: str, new: str) -> None:
    file = folder / "card.json"
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))


DAMAGE = {
    "weights truncated": (_truncate, "weights of"),
    "weights changed": (_flip, "not the ones the card names"),
    "weights empty": (lambda folder: (folder / "weights.safetensors").write_bytes(b""), "weights of"),
    "weights missing": (lambda folder: (folder / "weights.safetensors").unlink(), "weights of"),
    "card missing": (lambda folder: (folder / "card.json").unlink(), "howsure train"),
    "card cut": (lambda folder: (folder / "card.json").write_text('{"format'), "expected JSON"),
    "card of another kind": (lambda folder: (folder / "card.json").write_text("[]"), "format 1 or 2"),
    "card in no encoding": (lambda folder: (folder / "card.json").write_bytes(b"\xff\xff"), "expected JSON"),
    "card changed": (lambda folder: _replace(folder, '"dim": 4', '"dim": 5'), "does not agree with its checksum"),
    "card without its checksum": (lambda folder: _replace(folder, '"checksum"', '"checkout"'), "has no checksum"),
    "card under the old format": (lambda folder: _replace(folder, '"format": 2', '"format": 1'), "does not agree"),
    "newer format": (lambda folder: _card(folder, format=3), "version that wrote it"),
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


def test_no_flipped_bit_of_a_card_passes_for_the_truth(embedder: Embedder, tmp_path: Path) -> None:
    embedder.save(tmp_path)
    file, truth = tmp_path / "card.json", read_card(tmp_path)
    content = file.read_bytes()
    found = 0
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        try:
            assert read_card(tmp_path) == truth  # as where a space became another
        except ModelError:
            found += 1
    assert found > 7 * len(content)


def test_a_card_of_the_first_format_opens_without_a_checksum(embedder: Embedder, tmp_path: Path) -> None:
    embedder.save(tmp_path)
    card = read_card(tmp_path) | {"format": 1}
    (tmp_path / "card.json").write_text(json.dumps(card))
    again = Embedder.load(tmp_path)
    assert again.card == card
    again.save(tmp_path)
    assert read_card(tmp_path)["format"] == 2


SHOWN = SeenContent(np.array([5, -3, 5, 2**63 - 1]), complete=True)


def test_what_it_has_seen_is_kept(embedder: Embedder, tmp_path: Path) -> None:
    before = embedder.fingerprint
    assert (len(embedder.seen.hashes), embedder.seen.complete) == (0, False)
    embedder.save(tmp_path)
    assert not (tmp_path / SEEN_FILE).exists()
    embedder.seen = SHOWN
    embedder.save(tmp_path)
    again = Embedder.load(tmp_path)
    assert again.seen.hashes.tolist() == [-3, 5, 2**63 - 1]
    assert again.seen.complete
    assert again.fingerprint == before
    Embedder.load(tmp_path).save(tmp_path / "again")
    assert (tmp_path / "again" / SEEN_FILE).read_bytes() == (tmp_path / SEEN_FILE).read_bytes()


def test_it_is_read_when_somebody_asks(embedder: Embedder, tmp_path: Path) -> None:
    embedder.seen = SHOWN
    embedder.save(tmp_path)
    file = tmp_path / SEEN_FILE
    content = file.read_bytes()
    for harm in (file.unlink, lambda: file.write_bytes(content[:-1]), lambda: file.write_bytes(content[:-1] + b"x")):
        harm()
        damaged = Embedder.load(tmp_path)
        assert damaged.encode(PICTURES).dim == 4
        with pytest.raises(ModelError, match="the hashes of the 3 pictures that the model has seen"):
            damaged.seen  # noqa: B018
        with pytest.raises(ModelError, match="copy the model again"):
            damaged.save(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
