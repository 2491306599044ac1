"""Who is who from frame to frame: detections assigned to tracks by P(same), weighted by certainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding, cat, point_estimates
from howsure.errors import InputError
from howsure.match import Matcher
from howsure.metrics import checks
from howsure.tasks.prototypes import prototypes

UNASSIGNED = -1  # the track of a detection that fits none and is too uncertain to begin one


def associate(probability: np.ndarray, *, threshold: float) -> np.ndarray:
    """The track of each detection, (Q,), or `UNASSIGNED`: the likeliest assignment of all.

    `probability` is P(same), (Q, T). Every detection has at most one track and the other way round; below the P(same)
    `threshold` a detection stays unassigned. Maximises the sum of log-odds (Hungarian method).

    >>> associate(np.array([[0.9, 0.8], [0.95, 0.1]]), threshold=0.5)
    array([1, 0])
    """
    if probability.ndim != 2 or not 0 < threshold < 1:
        got = f"{probability.shape}, {threshold}"
        raise InputError("probability", expected="(Q, T), and a threshold between 0 and 1", got=got)
    count, tracks = probability.shape
    tiny = np.finfo(float).tiny
    odds = np.log(np.maximum(probability, tiny)) - np.log(np.maximum(1 - probability, tiny))
    # One column more for every detection, so that each may stay unassigned.
    alone = np.full((count, count), np.log(threshold) - np.log1p(-threshold))
    rows, columns = linear_sum_assignment(np.concatenate([odds, alone], 1), maximize=True)
    found = np.full(count, UNASSIGNED)
    found[rows] = np.where(columns < tracks, columns, UNASSIGNED)
    return found


@dataclass
class Tracker:
    """Gives the detections of one frame after the other the numbers of their tracks.

    A track is the product of the embeddings of its detections, so that a poor picture moves it little. A detection that
    fits no track begins one, unless its uncertainty is above `max_uncertainty`: then it stays unassigned. With
    `weighted=False` uncertainty is ignored: plain means, and every unknown identity begins a track.

    Point estimates are compared, as if every detection had the `reference` uncertainty: the matcher is fitted to
    expected distances.
    """

    matcher: Matcher
    reference: float = 0.0
    max_uncertainty: float = np.inf
    threshold: float = 0.5  # P(same) below which a detection is an unknown identity
    weighted: bool = True

    def __post_init__(self) -> None:
        self._tracks: list[Embedding] = []  # the detections of each

    def see(self, frame: Embedding) -> np.ndarray:
        """The track of every detection, (Q,)."""
        found = np.full(len(frame), UNASSIGNED)
        if self._tracks:
            found = associate(self._probability(frame), threshold=self.threshold)
        certain = frame.uncertainty.double().numpy() <= (self.max_uncertainty if self.weighted else np.inf)
        for row, track in enumerate(found):
            if track != UNASSIGNED:
                self._tracks[track] = cat([self._tracks[track], frame[row]])
            elif certain[row]:
                found[row] = len(self._tracks)
                self._tracks.append(frame[row])
        return found

    def _probability(self, frame: Embedding) -> np.ndarray:
        """P(same) of every detection and every track, (Q, T)."""
        groups = np.repeat(np.arange(len(self._tracks)), [len(track) for track in self._tracks])
        tracks = point_estimates(prototypes(cat(self._tracks), groups, weighted=self.weighted))
        squared = expected_squared_distance(point_estimates(frame), tracks).double()
        return self.matcher.probability((squared + 2 * self.reference).sqrt()).numpy()


def identity_switches(identities: Sequence[ArrayLike], tracks: Sequence[ArrayLike]) -> int:
    """How often an identity goes on under another track than the last it had; both frame by frame.

    Unassigned detections are passed over.

    >>> identity_switches([["a", "b"], ["a", "b"], ["a"]], [[0, 1], [1, 0], [1]])
    2
    """
    last: dict[str, int] = {}
    switches = 0
    for names, numbers in zip(identities, tracks, strict=True):
        known, found = checks.names("identities", names), np.asarray(numbers)
        checks.same_length(identities=known, tracks=found)
        for name, number in zip(known.tolist(), found.tolist(), strict=True):
            if number == UNASSIGNED:
                continue
            switches += last.get(name, number) != number
            last[name] = number
    return switches
