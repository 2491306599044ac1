"""The content of a picture: the same for every copy, and for nothing else."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.pictures import encoded, noise
from howsure.data import InputSpec, load, stream
from howsure.data.content import UNKNOWN, SeenContent, content_hashes, read_seen
from howsure.errors import ModelError

SPEC = InputSpec(16, 16, 3, (0.5,) * 3, (0.5,) * 3)


def content_of(folder: Path) -> dict[str, int]:
    images = load(folder)
    (chunk,) = stream(images, SPEC)
    return dict(zip(images.ids, content_hashes(chunk.pixels).tolist(), strict=True))


def test_a_copy_is_known_by_another_name_format_and_size_that_the_network_does_not_see(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encoded(noise(), "JPEG", quality=60))
    with Image.open(tmp_path / "a.jpg") as jpeg:
        jpeg.save(tmp_path / "copy of it.png")
        Image.fromarray(SPEC.pixels(jpeg).transpose(1, 2, 0)).save(tmp_path / "as the network sees it.bmp")
        jpeg.save(tmp_path / "again.jpg", quality=30)
    found = content_of(tmp_path)
    same = {name.split("/")[-1] for name, one in found.items() if one == found[f"{tmp_path.name}/a.jpg"]}
    assert same == {"a.jpg", "copy of it.png", "as the network sees it.bmp"}


def test_one_hash_a_row_of_its_bytes_alone() -> None:
    rows = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)
    wanted = [
        int.from_bytes(hashlib.blake2b(bytes(row), digest_size=8).digest(), "little", signed=True) for row in rows
    ]
    assert content_hashes(rows).tolist() == wanted
    assert content_hashes(torch.from_numpy(rows)).tolist() == wanted
    assert content_hashes(rows[::-1])[::-1].tolist() == wanted
    assert content_hashes(rows[:0]).dtype == np.int64
    for bit in range(8 * rows[0].size):
        changed = rows[:1].copy().reshape(1, -1)
        changed[0, bit // 8] ^= 1 << bit % 8
        assert content_hashes(changed)[0] != wanted[0]


def test_vectors_have_the_hash_of_their_bytes() -> None:
    x = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    assert len(np.unique(content_hashes(np.concatenate([x, x[:5], x + 1e-6])))) == 40


def test_what_either_has_seen() -> None:
    first, second = SeenContent(np.array([3, 1, 3]), complete=True), SeenContent(np.array([2, 1]), complete=True)
    assert (first | second).hashes.tolist() == [1, 2, 3]
    assert (first | second).complete
    assert not (first | UNKNOWN).complete
    assert first.holds(np.array([0, 3, 1, 2])).tolist() == [False, True, True, False]
    assert not UNKNOWN.holds(np.array([0, 3])).any()


def test_it_survives_a_file(tmp_path: Path) -> None:
    seen = SeenContent(np.random.default_rng(0).integers(-(2**63), 2**63, 1000), complete=False)
    again = read_seen(tmp_path, seen.save(tmp_path))
    assert np.array_equal(again.hashes, seen.hashes)
    assert not again.complete
    named = SeenContent(seen.hashes[:1], complete=True).save(tmp_path)
    seen.save(tmp_path)
    with pytest.raises(ModelError, match="other content than the card names"):
        read_seen(tmp_path, named)
