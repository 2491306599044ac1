import numpy as np
import pytest

from howsure.data import AUGMENTATIONS, augment
from howsure.data.sets.n_digit import occlude
from howsure.errors import InputError


def pictures(count: int = 64, channels: int = 3, height: int = 28, width: int = 56) -> np.ndarray:
    return np.random.default_rng(7).integers(1, 256, size=(count, channels, height, width), dtype=np.uint8)


@pytest.mark.parametrize("kind", AUGMENTATIONS)
def test_keeps_the_form_and_the_original(kind: str) -> None:
    before = pictures(channels=1)
    kept = before.copy()
    after = augment(before, [kind], rng=np.random.default_rng(0))
    assert (after.shape, after.dtype) == (before.shape, before.dtype)
    assert np.array_equal(before, kept)
    assert not np.array_equal(after, before)
    assert np.array_equal(after, augment(before, [kind], rng=np.random.default_rng(0)))


def test_none_changes_nothing() -> None:
    assert np.array_equal(augment(pictures(), [], rng=np.random.default_rng(0)), pictures())


def test_flip_mirrors_about_half() -> None:
    before = pictures(count=400, height=4, width=4)
    after = augment(before, ["flip"], rng=np.random.default_rng(0))
    mirrored = [np.array_equal(a, b[..., ::-1]) for a, b in zip(after, before, strict=True)]
    same = [np.array_equal(a, b) for a, b in zip(after, before, strict=True)]
    assert sum(mirrored) + sum(same) == 400
    assert 160 < sum(mirrored) < 240


def test_shift_moves_whole_pictures_by_at_most_an_eighth() -> None:
    before = pictures(count=200, height=16, width=24)
    after = augment(before, ["shift"], rng=np.random.default_rng(0))
    padded = np.pad(before, ((0, 0), (0, 0), (2, 2), (3, 3)), mode="symmetric")
    moves = set()
    for i in range(len(before)):
        found = [
            (top, left)
            for top in range(5)
            for left in range(7)
            if np.array_equal(after[i], padded[i, :, top : top + 16, left : left + 24])
        ]
        assert len(found) == 1
        moves.add(found[0])
    assert {top for top, _ in moves} == set(range(5))
    assert {left for _, left in moves} == set(range(7))


def test_occlude_digits_is_the_published_training_corruption() -> None:
    before = pictures(count=500, channels=1)
    after = augment(before, ["occlude-digits"], rng=np.random.default_rng(3))
    expected = occlude(before[:, 0], occlusion_prob=0.2, sides=(0, 28), rng=np.random.default_rng(3))
    assert np.array_equal(after[:, 0], expected)


def test_unknown_kind_and_colour_digits_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean flip"):
        augment(pictures(), ["flipp"], rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="grey"):
        augment(pictures(), ["occlude-digits"], rng=np.random.default_rng(0))
