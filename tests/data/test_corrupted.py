"""Whole sets made worse."""

import numpy as np
import pytest

from howsure import data
from howsure.data import ArrayImages
from howsure.data.corrupted import KINDS, Corruption, corrupted_set, corruption_named
from howsure.errors import InputError

RNG = np.random.default_rng(0)
DIGITS = ArrayImages("two", ("a", "b", "c"), ("07", "12", None), RNG.integers(1, 256, (3, 28, 56), np.uint8))


def pixels(images: data.ImageSet, i: int) -> np.ndarray:
    return np.asarray(images.image(i))


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_get_worse_and_stay_who_they_are(kind):
    slight, severe = (corrupted_set(DIGITS, Corruption(kind, severity)) for severity in (1, 5))
    assert (severe.ids, severe.labels, severe.paths) == (DIGITS.ids, DIGITS.labels, DIGITS.paths)
    assert severe.name == f"two with {kind}:5"

    def change(images: data.ImageSet) -> float:
        return float(np.mean([np.abs(pixels(images, i) - pixels(DIGITS, i).astype(float)).mean() for i in range(3)]))

    assert 0 < change(slight) < change(severe)
    assert pixels(severe, 0).shape == (28, 56)


@pytest.mark.parametrize("kind", ["noise", "occlusion", "digit-occlusion"])
def test_chance_depends_on_seed_and_id_alone(kind):
    first, again, other = (corrupted_set(DIGITS, Corruption(kind, 4), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(pixels(first, 2), pixels(again, 2))
    np.testing.assert_array_equal(pixels(first.subset([2, 0]), 0), pixels(first, 2))
    assert (pixels(first, 2) != pixels(other, 2)).any()
    same = corrupted_set(ArrayImages("same", ("a", "b"), (None, None), DIGITS.array[[0, 0]]), Corruption(kind, 4))
    assert (pixels(same, 0) != pixels(same, 1)).any()


def test_digit_occlusion_blackens_one_square_in_each_digit():
    white = ArrayImages("white", tuple(map(str, range(20))), (None,) * 20, np.full((20, 28, 56), 255, np.uint8))
    for i in range(20):
        for digit in np.split(pixels(corrupted_set(white, Corruption("digit-occlusion", 5)), i), 2, axis=1):
            rows, columns = (digit == 0).any(1).sum(), (digit == 0).any(0).sum()
            assert rows == columns
            assert (digit == 0).sum() == rows * columns
    with pytest.raises(InputError, match="grey digits, 28 high"):
        corrupted_set(data.load("digits"), Corruption("digit-occlusion", 5)).image(0)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("blurr:3", "did you mean blur"),
        ("magic:3", "for example blur:3"),
        ("", "one of noise, blur"),
        ("blur", "got no severity; for example blur:3"),
        ("blur:0", "got severity '0'"),
        ("blur:6", "from 1 to 5"),
        ("blur:3:1", "got severity '3:1'"),
    ],
)
def test_a_name_that_means_nothing_is_refused(text, word):
    with pytest.raises(InputError, match=word):
        corruption_named(text)
