"""The published tables by their hashes, and occlusion by what it must hide."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from howsure.data import load
from howsure.data.sets import SETS
from howsure.data.sets.idx import idx_labels, idx_pixels
from howsure.data.sets.n_digit import SPLITS, corrupted, index_tables, occlude, python2_set_order
from howsure.errors import DataError, InputError

RAW = Path(os.environ.get("HOWSURE_DATA", "unset")) / "MNIST" / "raw"
needs_mnist = pytest.mark.skipif(not RAW.is_dir(), reason="set HOWSURE_DATA to a folder with MNIST/raw")

# table: the first 16 digits of SHA-256 over the int64 bytes of the published image ids and of the numbers
PUBLISHED = {
    (2, "instance-train"): ("6a68d3e29729b082", "96bdba67cd0b5e6d"),
    (2, "instance-test"): ("ad94cbdd8ab0f471", "96bdba67cd0b5e6d"),
    (2, "number-train"): ("3b9553ee8a5a5c8b", "8a4d08bc96da8948"),
    (2, "number-test-seen"): ("6453619ec7bdac82", "8a4d08bc96da8948"),
    (2, "number-test-unseen"): ("109139f19ee779ed", "ac2cf4d349ac166d"),
    (3, "instance-train"): ("a9055ab1c6e66892", "702746827e553786"),
    (3, "instance-test"): ("42b2b3f2d97cfe1c", "702746827e553786"),
    (3, "number-train"): ("97c22500c8d1d3ab", "3d2f46a8a9f6afb5"),
    (3, "number-test-seen"): ("54fd6efce8980adc", "b4d0a7be030b6471"),
    (3, "number-test-unseen"): ("80b8318cc27653cc", "9c0c9e9ae6b0bc63"),
}
# source: classes, pictures
SIZES = {
    "n-digit-mnist-2:number-train": (70, 99_960),
    "n-digit-mnist-2:number-test-seen": (70, 9_940),
    "n-digit-mnist-2:number-test-unseen": (30, 9_990),
    "n-digit-mnist-2:instance-train": (100, 100_000),
    "n-digit-mnist-3:number-test-unseen": (100, 10_000),
    "n-digit-mnist-3:instance-test": (1_000, 10_000),
}


def fingerprint(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<i8").tobytes()).hexdigest()[:16]


@needs_mnist
@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("gap", ["number", "instance"])
def test_the_tables_are_the_published_ones(digits: int, gap: str) -> None:
    tables = index_tables(idx_labels(RAW, "train"), idx_labels(RAW, "test"), digits=digits, gap=gap)
    made = {(digits, split): (fingerprint(table.digits), fingerprint(table.numbers)) for split, table in tables.items()}
    assert made == {key: value for key, value in PUBLISHED.items() if key[0] == digits and key[1].startswith(gap)}


@needs_mnist
@pytest.mark.parametrize("source", SIZES)
def test_a_picture_shows_the_digits_of_its_label(source: str) -> None:
    images = load(source)
    assert images.name == source
    assert (len(images.classes), len(images)) == SIZES[source]
    digits = int(source.partition(":")[0][-1])
    split = "train" if source.endswith("train") else "test"
    label_of = {
        pixels.tobytes(): str(code) for pixels, code in zip(idx_pixels(RAW, split), idx_labels(RAW, split), strict=True)
    }
    for i in (0, len(images) // 2, len(images) - 1):
        picture = np.asarray(images.image(i))
        assert picture.shape == (28, 28 * digits)
        parts = [picture[:, 28 * n : 28 * (n + 1)].tobytes() for n in range(digits)]
        assert "".join(label_of[part] for part in parts) == images.labels[i]


@needs_mnist
def test_seen_and_unseen_numbers_and_the_bare_name() -> None:
    train, seen, unseen = (load(f"n-digit-mnist-2:number-{part}") for part in ("train", "test-seen", "test-unseen"))
    assert set(seen.classes) == set(train.classes)
    assert len(set(unseen.classes) | set(train.classes)) == 100
    assert load("n-digit-mnist-2").ids == train.ids
    assert load("n-digit-mnist-2:instance-test@07").classes == ("07",)


@needs_mnist
def test_splits_can_be_joined_and_rows_chosen() -> None:
    both = load("n-digit-mnist-2:all")
    assert len(both) == 99_960 + 9_940 + 9_990 + 100_000 + 10_000
    last = load("n-digit-mnist-2:instance-test")
    assert both.image(len(both) - 1).tobytes() == last.image(len(last) - 1).tobytes()
    some = last.subset([5, 3])
    assert some.image(1).tobytes() == last.image(3).tobytes()


def test_an_unknown_split_lists_those_that_exist() -> None:
    with pytest.raises(DataError, match=r"n-digit-mnist-3:number-test-unseen.*got the split 'number-test'"):
        load("n-digit-mnist-3:number-test")
    assert SETS["n-digit-mnist-2"].splits == SPLITS


def test_order_of_an_old_set() -> None:
    # 8 slots: 9 meets 1 and goes to 5*9 + 9 + 1 = 55, slot 7; 17 meets both and goes on to 5*103 + 0 + 1 = 516, slot 4
    assert python2_set_order([1, 8, 9, 17]) == [8, 1, 17, 9]
    # the sixth value makes the table grow to 32 slots, where 9 has a slot of its own
    assert python2_set_order([1, 8, 9, 17, 33, 2]) == [1, 2, 33, 8, 9, 17]
    assert python2_set_order([]) == []


def white(count: int, digits: int = 2) -> np.ndarray:
    return np.full((count, 28, 28 * digits), 255, np.uint8)


def hidden(count: int, *, prob: float, sides: tuple[int, int]) -> np.ndarray:
    """Which pixels of each digit are hidden, (count * 2, 28, 28)."""
    made = occlude(white(count), occlusion_prob=prob, sides=sides, rng=np.random.default_rng(0))
    return (made.reshape(count, 28, 2, 28).transpose(0, 2, 1, 3) == 0).reshape(-1, 28, 28)


def test_what_is_hidden_is_one_square_a_digit_of_every_side() -> None:
    masks = hidden(2_000, prob=1, sides=(0, 7))
    area, height, width = masks.sum((1, 2)), masks.any(2).sum(1), masks.any(1).sum(1)
    np.testing.assert_array_equal(height, width)
    np.testing.assert_array_equal(area, height**2)
    shares = np.bincount(height, minlength=8) / len(height)
    np.testing.assert_allclose(shares, 1 / 8, atol=0.02)
    corner = masks[height == 7].any(2).argmax(1)
    assert (corner.min(), corner.max()) == (0, 21)


def test_probability_and_severity() -> None:
    some = hidden(2_000, prob=0.2, sides=(0, 28)).any((1, 2)).mean()
    assert some == pytest.approx(0.2 * 28 / 29, abs=0.02)
    shares = [hidden(300, prob=1, sides=(0, side)).mean() for side in (0, 7, 14, 21, 28)]
    assert shares[0] == 0
    assert np.all(np.diff(shares) > 0)
    assert (hidden(300, prob=1, sides=(14, 14)).sum((1, 2)) == 14**2).all()
    # E[L²]/28² for L uniform in 0..28
    assert shares[-1] == pytest.approx(np.mean(np.arange(29) ** 2) / 28**2, abs=0.04)


@needs_mnist
def test_a_corrupted_set_keeps_names_and_labels_and_follows_its_seed() -> None:
    images = load("n-digit-mnist-2:instance-test").subset(range(50))
    first, again, other = (corrupted(images, occlusion_prob=1, sides=(0, 14), seed=seed) for seed in (1, 1, 2))
    assert (first.ids, first.labels) == (images.ids, images.labels)
    assert (first.array == again.array).all()
    assert (first.array != other.array).any()
    clean = np.stack([np.asarray(images.image(i)) for i in range(50)])
    changed = first.array != clean
    assert changed.any()
    assert (first.array[changed] == 0).all()
    assert (corrupted(images, occlusion_prob=0).array == clean).all()


def test_mistakes_are_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="occlusion_prob: expected a probability"):
        occlude(white(1), occlusion_prob=1.5, sides=(0, 3), rng=rng)
    for sides in ((0, -1), (0, 29), (0, 2.5), (8, 4), (-1, 4)):
        with pytest.raises(InputError, match="sides"):
            occlude(white(1), occlusion_prob=1, sides=sides, rng=rng)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"28 high.*got \(1, 8, 8\)"):
        occlude(np.zeros((1, 8, 8), np.uint8), occlusion_prob=1, sides=(0, 3), rng=rng)
    with pytest.raises(InputError, match="one size, got 0 sizes"):
        corrupted(load("digits").subset([]), occlusion_prob=1)
    with pytest.raises(InputError, match="grey digits"):
        corrupted(load("digits").subset([0, 1]), occlusion_prob=1)
