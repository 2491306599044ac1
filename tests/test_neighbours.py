"""The exhaustive search against a full sort."""

import numpy as np
import pytest
import torch

from howsure import Gaussian
from howsure.compare import rms_distance
from howsure.neighbours import neighbours

RNG = np.random.default_rng(0)
EMBEDDING = Gaussian(torch.from_numpy(RNG.normal(size=(300, 8))), torch.from_numpy(RNG.random((300, 1))))
FULL = rms_distance(EMBEDDING, EMBEDDING).numpy()


def test_neighbours_are_those_of_a_full_sort_without_the_query():
    near = neighbours(EMBEDDING, EMBEDDING, leave_one_out=True, depth=7)
    full = FULL.copy()
    np.fill_diagonal(full, np.inf)
    np.testing.assert_array_equal(near.positions, np.argsort(full, axis=1, kind="stable")[:, :7])
    np.testing.assert_allclose(near.distances, np.sort(full, axis=1)[:, :7], atol=1e-9)


def test_hidden_items_are_not_seen_and_the_farthest_of_few_is_repeated():
    groups = np.arange(300) % 60  # five items each

    def other_groups(rows):
        return groups[rows][:, None] != groups

    near = neighbours(EMBEDDING, EMBEDDING, depth=7, hidden=other_groups)
    seen = np.where(groups[:, None] == groups, FULL, np.inf)
    np.testing.assert_array_equal(near.positions[:, :5], np.argsort(seen, axis=1, kind="stable")[:, :5])
    np.testing.assert_array_equal(near.positions[:, 5:], near.positions[:, [4, 4]])
    np.testing.assert_allclose(near.distances[:, 6], np.sort(seen, axis=1)[:, 4], atol=1e-9)


def test_a_search_can_be_stopped_between_blocks():
    blocks = []

    def stop():
        blocks.append(1)
        if len(blocks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        neighbours(EMBEDDING, EMBEDDING, before_block=stop)
    assert neighbours(EMBEDDING[:0], EMBEDDING, depth=3).positions.shape == (0, 3)
