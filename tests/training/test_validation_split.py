from collections import Counter

import numpy as np
import pytest

from howsure.data import ArrayImages, splitting, validation_split
from howsure.errors import TrainingError


def images(counts: list[int], *, unlabelled: int = 0) -> ArrayImages:
    labels = [f"c{i:03d}" for i, count in enumerate(counts) for _ in range(count)] + [None] * unlabelled
    rng = np.random.default_rng(0)
    mixed = tuple(labels[i] for i in rng.permutation(len(labels)))
    return ArrayImages("made", tuple(map(str, range(len(mixed)))), mixed, np.zeros((len(mixed), 2, 2), np.uint8))


WORLDS = {
    "large classes": [100] * 5,
    "uneven classes": [400, 60, 30, 21, 2, 1],
    "many small classes": [5] * 40,
    "many pairs": [2] * 30,
    "few small classes": [6, 5, 4],
    "two classes": [4, 4],
    "some singles": [1] * 20 + [3] * 12,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("counts", WORLDS.values(), ids=WORLDS.keys())
def test_laws(counts: list[int], share: float, seed: int) -> None:
    made = images(counts)
    rows, held = validation_split(made, share=share, seed=seed)
    assert sorted([*rows, *held]) == list(range(len(made)))  # all of them, none on both sides
    mates = Counter(made.labels[row] for row in held)
    assert len(mates) >= 2
    assert max(mates.values()) >= 2
    assert len({made.labels[row] for row in rows}) >= 2
    assert len(held) < len(made) / 2 + 1
    again = validation_split(made, share=share, seed=seed)
    assert np.array_equal(again[0], rows)
    assert np.array_equal(again[1], held)


def test_seeds_differ() -> None:
    made = images(WORLDS["large classes"])
    assert not np.array_equal(*(validation_split(made, share=0.1, seed=seed)[1] for seed in (0, 1)))


def test_large_classes_give_a_share_each() -> None:
    made = images([100, 50, 30])
    held = Counter(made.labels[row] for row in validation_split(made, share=0.1, seed=0)[1])
    assert held == {"c000": 10, "c001": 5, "c002": 3}


@pytest.mark.parametrize("world", ["many small classes", "many pairs", "some singles"])
def test_small_classes_are_held_out_whole(world: str) -> None:
    made = images(WORLDS[world])
    rows, held = validation_split(made, share=0.1, seed=0)
    kept = {made.labels[row] for row in held}
    assert not kept & {made.labels[row] for row in rows}
    assert len(kept) >= 2


def test_a_single_picture_is_never_held_out() -> None:
    made = images(WORLDS["some singles"])
    counts = Counter(made.labels)
    assert all(counts[made.labels[row]] >= 2 for row in validation_split(made, share=0.1, seed=0)[1])


@pytest.mark.parametrize("counts", [[100] * 5, [5] * 40, [5] * 38 + [200, 300]], ids=["large", "small", "uneven"])
def test_at_most_so_many(counts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "AT_MOST", 20)
    made = images(counts)
    rows, held = validation_split(made, share=0.3, seed=0)
    assert 10 <= len(held) <= 20
    if len(counts) > 10:
        assert not {made.labels[row] for row in held} & {made.labels[row] for row in rows}


def test_missing_labels() -> None:
    with pytest.raises(TrainingError, match="3 without"):
        validation_split(images([10, 10], unlabelled=3), share=0.1, seed=0)


@pytest.mark.parametrize("counts", [[50], [1] * 30, [50, 1, 1]], ids=["one class", "singles", "one and singles"])
def test_nothing_to_tell_apart(counts: list[int]) -> None:
    with pytest.raises(TrainingError, match="two classes or more with two pictures") as caught:
        validation_split(images(counts), share=0.1, seed=0)
    assert f"of {len(counts)} classes" in caught.value.got


@pytest.mark.parametrize("counts", [[3, 3], [2, 2, 2], [4, 2, 2]])
def test_too_few_to_hold_any_out(counts: list[int]) -> None:
    with pytest.raises(TrainingError, match="hold some out"):
        validation_split(images(counts), share=0.1, seed=0)
