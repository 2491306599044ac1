"""Which pictures to label next: by hand, and on digits against labels at random."""

import numpy as np
import pytest
import torch

from howsure.compare import rms_distance
from howsure.embeddings import Gaussian, NovelGaussian, Point, point_estimates
from howsure.errors import InputError
from howsure.tasks.labelling import label_next

CLUSTERS = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [9.0]])


def rows(wanted) -> list[int]:
    return [one.row for one in wanted]


def test_each_cluster_is_asked_for_once_before_any_twice() -> None:
    cluster = np.array([0, 0, 0, 1, 1, 2])
    assert set(cluster[rows(label_next(Point(CLUSTERS), 3))]) == {0, 1, 2}
    assert rows(label_next(Point(CLUSTERS), 6)) != list(range(6))
    assert sorted(rows(label_next(Point(CLUSTERS), 6))) == list(range(6))


def test_what_is_labelled_is_not_asked_for_again() -> None:
    first = label_next(Point(CLUSTERS), 1, labelled=Point(torch.tensor([[0.1], [9.0]])))[0]
    assert first.row in (3, 4)
    assert first.reason == "different"
    assert first.distance > 3


def test_uncertainty_decides_between_clusters_that_are_alike() -> None:
    location = torch.tensor([[-3.0], [-3.0], [0.0], [3.0], [3.0]])
    known = Point(torch.tensor([[0.0]]))
    left = Gaussian(location, torch.tensor([[0.9], [0.8], [0.1], [0.2], [0.3]]))
    assert label_next(left, 1, labelled=known)[0].row in (0, 1)
    right = Gaussian(location, left.scale.flip(0))
    chosen = label_next(right, 1, labelled=known)[0]
    assert chosen.row in (3, 4)
    assert chosen.reason in ("ambiguous", "different")
    novel = NovelGaussian(location, torch.ones(5, 1), torch.tensor([0.9, 0.8, 0.7, 0.1, 0.0]))
    assert label_next(novel, 1, labelled=known)[0].row in (3, 4)
    assert {one.reason for one in label_next(novel, 5) if one.row == 4} == {"novel"}


def test_a_list_for_more_pictures_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="count"):
        label_next(Point(CLUSTERS), 7)


@pytest.mark.parametrize("count", [10, 20, 40])
def test_listed_digits_teach_a_nearest_neighbour_more_than_random_ones(digits, count: int) -> None:
    half = np.arange(len(digits.labels)) % 2 == 0
    pool, rest = digits.clean[half], digits.clean[~half]

    def accuracy(chosen: list[int]) -> float:
        nearest = rms_distance(point_estimates(rest), point_estimates(pool[chosen])).argmin(1).numpy()
        return float((digits.labels[half][chosen][nearest] == digits.labels[~half]).mean())

    at_random = [
        accuracy(np.random.default_rng(seed).choice(len(pool), count, replace=False).tolist()) for seed in range(20)
    ]
    assert accuracy(rows(label_next(pool, count))) > np.mean(at_random) + np.std(at_random) / 2
