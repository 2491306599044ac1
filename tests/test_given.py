"""From what a person gives to items, and to what pictures like these are like."""

from pathlib import Path

import numpy as np
import torch

from howsure import data
from howsure.data.content import content_hashes
from howsure.data.images import FileImages
from howsure.data.quality import LEAST
from howsure.decide.seen import Items
from howsure.embeddings import Point
from howsure.given import quality_of


def files(folder: Path, count: int) -> FileImages:
    digits = data.load("digits:test")
    paths = [folder / f"{row}.png" for row in range(count)]
    for row, path in enumerate(paths):
        digits.image(row).save(path)
    return FileImages("digits", tuple(map(str, paths)), (None,) * count, tuple(paths))


def test_pictures_are_looked_at_in_whatever_form_they_are_known(tmp_path: Path) -> None:
    images = files(tmp_path, LEAST)
    content = content_hashes(np.zeros((LEAST, 1, 8, 8), np.uint8))
    items = Items.from_pictures(Point(torch.zeros(LEAST, 2)), images, content)
    found = [quality_of(given, side=8, seed=0) for given in (images, list(images.paths), items)]
    assert found[0] is not None
    assert found[0] == found[1] == found[2]


def test_files_that_are_gone_do_not_count(tmp_path: Path) -> None:
    images = files(tmp_path, LEAST)
    items = Items.from_pictures(Point(torch.zeros(LEAST, 2)), images, np.zeros(LEAST, np.int64))
    (tmp_path / "0.png").unlink()
    assert quality_of(items, side=8, seed=0) is None
    assert quality_of(Items.from_embedding(Point(torch.zeros(LEAST, 2))), side=8, seed=0) is None
