from pathlib import Path

import numpy as np
import pytest

from data.pictures import noise
from howsure.data import ArrayImages, FileImages, ImageSet
from howsure.errors import DataError, InputError

IDS, LABELS = ("a", "b", "c", "d"), ("y", None, "x", "y")


@pytest.fixture(params=["array", "files"])
def images(request: pytest.FixtureRequest, tmp_path: Path) -> ImageSet:
    pictures = [noise(seed=i) for i in range(4)]
    if request.param == "array":
        return ArrayImages("tiny", IDS, LABELS, np.stack([np.asarray(picture) for picture in pictures]))
    files = tuple(tmp_path / f"{name}.png" for name in IDS)
    for picture, file in zip(pictures, files, strict=True):
        picture.save(file)
    return FileImages("tiny", IDS, LABELS, files)


def test_pictures_labels_and_classes(images: ImageSet) -> None:
    assert len(images) == 4
    assert images.classes == ("x", "y")
    for i in range(4):
        np.testing.assert_array_equal(np.asarray(images.image(i)), np.asarray(noise(seed=i)))


@pytest.mark.parametrize("indices", [[3, 0], np.array([3, 0]), (-1, 0), [], [True, False, False, True]])
def test_subset_takes_ids_labels_paths_and_pixels_together(images: ImageSet, indices: list[int]) -> None:
    part = images.subset(indices)
    rows = {0: [], 2: [3, 0], 4: [0, 3]}[len(indices)]
    assert part.ids == tuple(IDS[i] for i in rows)
    assert part.labels == tuple(LABELS[i] for i in rows)
    assert part.paths == tuple(images.paths[i] for i in rows)
    for j, i in enumerate(rows):
        np.testing.assert_array_equal(np.asarray(part.image(j)), np.asarray(images.image(i)))


@pytest.mark.parametrize("indices", [[4], [True, False]])
def test_subset_out_of_range(images: ImageSet, indices: list[int]) -> None:
    with pytest.raises(InputError, match="indices"):
        images.subset(indices)


def test_subset_cannot_repeat_an_id(images: ImageSet) -> None:
    with pytest.raises(InputError, match="'b' 2 times"):
        images.subset([1, 1])


def test_what_does_not_fit_together_is_refused() -> None:
    pixels = np.zeros((2, 4, 4), np.uint8)
    with pytest.raises(InputError, match="labels: expected one for each of 2"):
        ArrayImages("x", ("a", "b"), (None,), pixels)
    with pytest.raises(InputError, match="array: expected one picture"):
        ArrayImages("x", ("a", "b"), (None, None), pixels[:1])
    with pytest.raises(InputError, match="files"):
        FileImages("x", ("a",), (None,), ())
    for wrong in (pixels.astype(float), np.zeros((2, 4), np.uint8), np.zeros((2, 4, 4, 4), np.uint8)):
        with pytest.raises(InputError, match="uint8"):
            ArrayImages("x", ("a", "b"), (None, None), wrong)


def test_a_file_is_first_looked_at_when_asked_for() -> None:
    images = FileImages("x", ("a",), (None,), (Path("nowhere.png"),))
    with pytest.raises(DataError, match="no such file"):
        images.image(0)
