import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.data import ArrayImages, hold_out_classes, load, split
from howsure.errors import DataError, InputError

LABELS = st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=8, max_size=120)
SHARES = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda parts: [p / sum(parts) for p in parts])


def images_with(labels: list[str | None]) -> ArrayImages:
    ids = tuple(f"id{i}" for i in range(len(labels)))
    return ArrayImages("set", ids, tuple(labels), np.arange(len(labels), dtype=np.uint8)[:, None, None])


@given(LABELS, SHARES, st.integers(0, 2**32))
def test_parts_are_disjoint_exhaustive_stratified_and_of_the_right_size(
    labels: list[str | None], shares: list[float], seed: int
) -> None:
    images = images_with(labels)
    try:
        parts = split(images, shares, seed=seed)
    except DataError:
        assert min(shares) * len(labels) < len(shares)  # only a small share of few pictures can come out empty
        return
    assert sorted(i for part in parts for i in part.ids) == sorted(images.ids)
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - share * len(labels)) <= len(shares)
        counts = Counter(part.labels)
        for label, total in Counter(labels).items():
            assert abs(counts[label] - share * total) < 1
        order = [images.ids.index(name) for name in part.ids]
        assert order == sorted(order)
        assert [part.array[j, 0, 0] for j in range(len(part))] == order


@given(st.integers(1, 40), st.floats(0.1, 0.9), st.integers(0, 99))
def test_classes_of_one_picture_spread_by_share(classes: int, share: float, seed: int) -> None:
    images = images_with([f"class {i}" for i in range(classes)] + ["z"] * 100)
    first, _ = split(images, [share, 1 - share], seed=seed)
    alone = sum(label != "z" for label in first.labels)
    assert abs(alone - share * classes) <= 1
    assert abs(len(first) - share * len(images)) <= 1


def test_a_split_is_a_function_of_the_seed() -> None:
    images = images_with(["a", "b"] * 30)
    once, again, other = (split(images, [0.5, 0.5], seed=seed)[0].ids for seed in (1, 1, 2))
    assert once == again != other


def test_named_shares_name_the_parts() -> None:
    parts = split(images_with(["a"] * 10), {"train": 0.8, "val": 0.2}, seed=0)
    assert [(part.name, len(part)) for part in parts] == [("set[train]", 8), ("set[val]", 2)]


@pytest.mark.parametrize("shares", [[], [0.5, 0.4], [1.5, -0.5], [1.0, 0.0], {"a": 2.0}, [float("nan")]])
def test_shares_that_are_no_shares(shares: list[float]) -> None:
    with pytest.raises(InputError, match="add up to 1"):
        split(images_with(["a"] * 10), shares, seed=0)


def test_an_empty_part_is_an_error() -> None:
    with pytest.raises(DataError, match=r"part 1 of set: expected a picture, got none of 1"):
        split(images_with(["a"]), [0.9, 0.1], seed=0)


def test_held_out_classes() -> None:
    without, only = hold_out_classes(images_with(["a", "b", None, "a", "c"]), {"a", "c"})
    assert without.labels == ("b", None)
    assert only.labels == ("a", "a", "c")
    assert only.ids == ("id0", "id3", "id4")


def test_an_unknown_class_is_an_error_with_a_suggestion() -> None:
    images = images_with(["ankle boot", "sandal"])
    with pytest.raises(DataError, match=r"one of ankle boot, sandal, got 'Ankel boot'; did you mean ankle boot\?"):
        hold_out_classes(images, ["Ankel boot"])
    with pytest.raises(DataError, match="have no labels"):
        hold_out_classes(images_with([None]), ["a"])
    with pytest.raises(InputError, match="collection"):
        hold_out_classes(images, "sandal")


def test_the_halves_of_digits_never_change() -> None:
    train, test = load("digits:train"), load("digits:test")
    assert (len(train), len(test)) == (899, 898)
    assert hashlib.sha256(" ".join(train.ids).encode()).hexdigest().startswith("d46fd5675502f87c")
