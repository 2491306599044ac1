"""Tracks: the assignment by brute force, the tracker on made-up frames, and on digits that come and go."""

from itertools import permutations

import numpy as np
import pytest
import torch

from howsure.embeddings import Gaussian, Point
from howsure.errors import InputError
from howsure.match import Matcher
from howsure.metrics import b_cubed
from howsure.tasks.tracking import UNASSIGNED, Tracker, associate, identity_switches

MATCHER = Matcher(scale=4.0, offset=4.0, base_rate=0.5)  # P(same) = .5 at a distance of 1


@pytest.mark.parametrize("seed", range(5))
def test_the_assignment_is_the_likeliest_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    probability = rng.uniform(0.02, 0.98, (3, 4))
    odds = np.log(probability / (1 - probability))
    none = 0.6
    tracks = [*range(4), *[UNASSIGNED] * 3]

    def worth(chosen: tuple[int, ...]) -> float:
        return sum(np.log(none / (1 - none)) if t == UNASSIGNED else odds[row, t] for row, t in enumerate(chosen))

    wanted = max(permutations(tracks, 3), key=worth)
    assert associate(probability, threshold=none).tolist() == list(wanted)


def test_certainty_and_impossibility_are_no_error() -> None:
    assert associate(np.array([[1.0, 0.0], [1.0, 0.0]]), threshold=0.5).tolist().count(UNASSIGNED) == 1
    with pytest.raises(InputError):
        associate(np.ones((2, 2)), threshold=1.0)


def test_tracks_go_on_and_unknowns_begin_new_ones() -> None:
    tracker = Tracker(MATCHER)
    assert tracker.see(Point(torch.tensor([[0.0], [5.0]]))).tolist() == [0, 1]
    assert tracker.see(Point(torch.tensor([[5.1], [0.2]]))).tolist() == [1, 0]
    assert tracker.see(Point(torch.tensor([[9.0], [0.1], [5.0]]))).tolist() == [2, 0, 1]
    assert tracker.see(Point(torch.tensor([[0.1], [0.2]]))).tolist() in ([0, 3], [3, 0])  # two never share one


def test_a_poor_picture_moves_a_track_little_and_begins_none() -> None:
    sure, vague = torch.tensor([[0.1]]), torch.tensor([[2.0]])
    weighted, plain = Tracker(MATCHER, max_uncertainty=1.0), Tracker(MATCHER, max_uncertainty=1.0, weighted=False)
    for tracker in (weighted, plain):
        assert tracker.see(Gaussian(torch.tensor([[0.0]]), sure)).tolist() == [0]
        assert tracker.see(Gaussian(torch.tensor([[0.9]]), vague)).tolist() == [0]
    third = Gaussian(torch.tensor([[-0.7]]), sure)
    assert weighted.see(third).tolist() == [0]
    assert plain.see(third).tolist() == [1]
    unknown = Gaussian(torch.tensor([[50.0]]), vague)
    assert weighted.see(unknown).tolist() == [UNASSIGNED]
    assert plain.see(unknown).tolist() == [2]


def test_switches_are_counted_by_identity() -> None:
    names = [["a", "b"], ["b", "a"], ["a", "b"], ["a"]]
    assert identity_switches(names, [[0, 1], [1, 0], [0, 1], [0]]) == 0
    assert identity_switches(names, [[0, 1], [0, 1], [0, 1], [0]]) == 4
    assert identity_switches(names, [[0, 1], [1, UNASSIGNED], [0, 1], [2]]) == 1
    with pytest.raises(InputError):
        identity_switches([["a"]], [[0, 1]])


def test_confidence_keeps_identities_of_digits_together(digits) -> None:
    """Twenty frames of six different digits each, a third of them spoiled; means over ten films."""
    matcher = Matcher(**digits.embedder.card["matcher"]).at(0.5)
    uncertainty = digits.clean.uncertainty.double()
    reference, limit = float(uncertainty.median()), float(uncertainty.quantile(0.95))
    switches, agreement = {True: 0, False: 0}, {True: 0.0, False: 0.0}
    for film in range(10):
        for weighted in switches:
            rng = np.random.default_rng(film)
            tracker = Tracker(matcher, reference=reference, max_uncertainty=limit, weighted=weighted)
            names, tracks = [], []
            for _ in range(20):
                shown = rng.choice(10, 6, replace=False)
                frame = [rng.choice(np.flatnonzero(digits.labels == str(digit))) for digit in shown]
                names.append(digits.labels[frame])
                tracks.append(tracker.see(digits.mixed[frame]))
            switches[weighted] += identity_switches(names, tracks)
            found = np.concatenate(tracks)
            found = np.where(found == UNASSIGNED, -1 - np.arange(len(found)), found)  # each alone
            agreement[weighted] += b_cubed(np.concatenate(names), found).f / 10
    assert switches[True] < 0.9 * switches[False]
    assert agreement[True] > agreement[False]
