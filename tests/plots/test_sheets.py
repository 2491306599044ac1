"""Contact sheets: which pictures are on them, where, and their captions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from howsure import Gaussian, Point
from howsure.data import ArrayImages
from howsure.errors import DataError, InputError
from howsure.plots.sheets import BOX, COUNT, GAP, LINE, sheets_folder, write_sheets


def greys(count: int, *, size: tuple[int, int] = (28, 28)) -> ArrayImages:
    """Picture i is all of grey 2 i."""
    array = np.repeat(np.arange(count, dtype=np.uint8) * 2, size[0] * size[1]).reshape(count, size[1], size[0])
    ids = tuple(f"g/{i:03d}" for i in range(count))
    return ArrayImages("greys", ids, tuple(f"grey {i}" for i in range(count)), array)


def certain(count: int, seed: int = 0) -> tuple[Gaussian, np.ndarray]:
    """Beliefs in random order of certainty, and that order, most certain first."""
    scale = torch.from_numpy(np.random.default_rng(seed).permutation(count) + 1.0)
    return Gaussian(torch.zeros(count, 2).double(), scale[:, None]), scale.argsort().numpy()


def index_of(folder: Path) -> dict:
    return json.loads((folder / "index.json").read_text(encoding="utf-8"))


def test_the_index_lists_both_ends_in_order(tmp_path):
    embedding, order = certain(120)
    files = write_sheets(tmp_path, greys(120), embedding)
    assert [file.name for file in files] == ["most-certain.png", "least-certain.png", "index.json"]
    index = index_of(tmp_path)
    most, least = (sheet["items"] for sheet in index["sheets"])
    assert [item["id"] for item in most] == [f"g/{i:03d}" for i in order[:COUNT]]
    assert [item["id"] for item in least] == [f"g/{i:03d}" for i in order[::-1][:COUNT]]
    first = {"id": f"g/{order[0]:03d}", "label": f"grey {order[0]}", "uncertainty": pytest.approx(2.0)}
    assert most[0] == first | {"nearest": f"grey {order[1]}", "right": False}
    assert (index["data"], index["pictures"], index["sorted_by"]) == ("greys", 120, "uncertainty")


@pytest.mark.parametrize("size", [(28, 28), (56, 28), (8, 8), (300, 200), (10, 400)])
def test_the_sheet_shows_the_pictures_of_the_index_in_reading_order(tmp_path, size):
    embedding, order = certain(100)
    write_sheets(tmp_path, greys(100, size=size), embedding)
    for name, rows in (("most", order[:COUNT]), ("least", order[::-1][:COUNT])):
        with Image.open(tmp_path / f"{name}-certain.png") as sheet:
            pixels = np.asarray(sheet.convert("L"))
        # The first row of pictures: the middle of each box, above where its picture ends.
        rows_of_text = 2 * GAP + 2 * LINE
        found = [pixels[rows_of_text + 10, GAP + n * (BOX[0] + GAP) + BOX[0] // 2] for n in range(8)]
        np.testing.assert_array_equal(found, 2 * rows[:8])


def test_few_pictures_are_never_on_both_sheets(tmp_path):
    embedding, _ = certain(7)
    write_sheets(tmp_path, greys(7), embedding)
    most, least = ({item["id"] for item in sheet["items"]} for sheet in index_of(tmp_path)["sheets"])
    assert (len(most), len(least)) == (3, 3)
    assert not most & least


def test_points_are_sorted_by_their_nearest_neighbour(tmp_path):
    mean = torch.tensor([0.0, 1.0, 1.1, 5.0, 5.3, 9.0])
    write_sheets(tmp_path, greys(6), Point(mean[:, None]))
    index = index_of(tmp_path)
    assert index["sorted_by"] == "top1_distance"
    assert [item["id"] for item in index["sheets"][1]["items"]] == ["g/005", "g/000", "g/004"]
    assert index["sheets"][1]["items"][0]["top1_distance"] == pytest.approx(3.7)


def framed(file: Path) -> int:
    """How many columns of pixels in the first row of pictures are red from top to bottom."""
    with Image.open(file) as sheet:
        pixels = np.asarray(sheet.convert("RGB")).astype(int)
    band = pixels[2 * GAP + 2 * LINE + 5 : 2 * GAP + 2 * LINE + 25]
    return int(((band[..., 0] > 150) & (band[..., 1] < 80)).all(0).sum())


def test_a_wrong_nearest_neighbour_is_named_and_framed(tmp_path):
    images = greys(8)
    labels = ("a", "a", "b", "b", "a", "b", "c", "c")  # 4 and 5 are neighbours, and of two classes
    mean = torch.tensor([0.0, 0.1, 5.0, 5.1, 20.0, 20.1, 40.0, 40.1])
    scale = torch.tensor([0.01, 0.01, 0.01, 0.01, 0.05, 0.05, 0.05, 0.05])
    files = write_sheets(
        tmp_path, ArrayImages("pairs", images.ids, labels, images.array), Gaussian(mean[:, None], scale[:, None])
    )
    most, least = (sheet["items"] for sheet in index_of(tmp_path)["sheets"])
    assert [item["right"] for item in most] == [True] * 4
    assert {item["id"]: (item["nearest"], item["right"]) for item in least} == {
        "g/004": ("b", False),
        "g/005": ("a", False),
        "g/006": ("c", True),
        "g/007": ("c", True),
    }
    assert framed(files[0]) == 0
    assert framed(files[1]) == 2 * 2 * 3  # two pictures, two sides, three pixels each


def test_one_picture_is_not_sorted(tmp_path):
    with pytest.raises(InputError, match="two pictures or more, got 1"):
        write_sheets(tmp_path, greys(1), certain(1)[0])


def test_long_and_missing_labels_fit(tmp_path):
    images = greys(4)
    odd = ArrayImages("odd", images.ids, ("x" * 500, None, "žluťoučký kůň", "a\nb"), images.array)
    files = write_sheets(tmp_path, odd, certain(4)[0])
    with Image.open(files[0]) as sheet:
        assert sheet.height < 300
    labels = {item["label"] for sheet in index_of(tmp_path)["sheets"] for item in sheet["items"]}
    assert labels == set(odd.labels)


def test_a_folder_that_cannot_be_is_refused_before_the_work(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(DataError, match="taken: expected a folder for the sheets, got a file"):
        sheets_folder(tmp_path / "taken")
    assert sheets_folder(tmp_path / "new" / "one").is_dir()
