from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.data import BalancedBatches
from howsure.errors import InputError


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    per_class=st.integers(1, 5),
    seed=st.integers(0, 1000),
    number=st.integers(0, 50),
    pick=st.data(),
)
def test_every_batch_is_p_classes_by_k(
    sizes: list[int], per_class: int, seed: int, number: int, pick: st.DataObject
) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)) * 10 - 3, sizes))
    classes = pick.draw(st.integers(1, len(sizes)))
    batches = BalancedBatches(labels, classes=classes, per_class=per_class, seed=seed)
    drawn = list(batches.epoch(number))
    assert len(drawn) == len(batches) == -(-len(labels) // (classes * per_class))
    for batch in drawn:
        assert batch.shape == (classes * per_class,)
        assert set(Counter(labels[batch]).values()) == {per_class}
        assert len(set(labels[batch])) == classes
        for label in set(labels[batch]):
            times = Counter(batch[labels[batch] == label]).values()
            size = int((labels == label).sum())
            assert max(times) <= -(-per_class // size)  # 1 if the class has enough pictures, else as even as can be
            assert len(times) == min(size, per_class)


def test_same_seed_and_epoch_same_batches_else_different() -> None:
    labels = [i % 10 for i in range(500)]

    def drawn(seed: int, number: int) -> list[int]:
        batches = BalancedBatches(labels, classes=5, per_class=4, seed=seed)
        return np.concatenate(list(batches.epoch(number))).tolist()

    assert drawn(1, 3) == drawn(1, 3)
    assert drawn(1, 3) != drawn(1, 4)
    assert drawn(1, 3) != drawn(2, 3)


def test_reading_one_epoch_does_not_disturb_another() -> None:
    batches = BalancedBatches([0, 1] * 20, classes=2, per_class=4, seed=0)
    alone = [batch.tolist() for batch in batches.epoch(5)]
    first, second = batches.epoch(5), batches.epoch(6)
    mixed = []
    for batch in first:
        next(second)
        mixed.append(batch.tolist())
    assert mixed == alone


def test_in_a_balanced_set_an_epoch_sees_every_picture_once() -> None:
    labels = [i % 6 for i in range(6 * 8)]
    batches = BalancedBatches(labels, classes=3, per_class=4, seed=0)
    assert sorted(np.concatenate(list(batches.epoch(2)))) == list(range(48))


def test_rare_classes_are_drawn_as_often_as_common_ones() -> None:
    labels = np.repeat(np.arange(5), [2, 300, 300, 300, 300])
    drawn = np.concatenate(list(BalancedBatches(labels, classes=2, per_class=4, seed=0).epoch(0)))
    counts = Counter(labels[drawn])
    assert max(counts.values()) - min(counts.values()) <= 4


def test_too_few_classes_and_sizes_below_one() -> None:
    with pytest.raises(InputError, match=r"at least 3 classes, got 2 \(4, 7\); lower `classes`"):
        BalancedBatches([4, 7, 7], classes=3, per_class=2, seed=0)
    with pytest.raises(InputError, match="per_class"):
        BalancedBatches([0, 1], classes=1, per_class=0, seed=0)
