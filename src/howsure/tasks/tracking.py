"""Who is who from frame to frame: detections joined to tracks by P(same), sure ones counting more."""

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

__all__ = ["NOBODY", "Tracker", "associate", "identity_switches"]

NOBODY = -1  # the track of a detection that fits nowhere and is too doubtful to begin one


def associate(probability: np.ndarray, *, none: float) -> np.ndarray:
    """The track of each detection, (Q,), or `NOBODY`: the assignment of which all together is likeliest.

    `probability` is P(same), (Q, T). Every detection has at most one track and the other way round; `none` is the
    P(same) below which a detection would rather belong to nobody. Maximises the sum of log-odds (Hungarian method).

    >>> associate(np.array([[0.9, 0.8], [0.95, 0.1]]), none=0.5)
    array([1, 0])
    """
    if probability.ndim != 2 or not 0 < none < 1:
        raise InputError(
            "probability", expected="(Q, T), and `none` between 0 and 1", got=f"{probability.shape}, {none}"
        )
    count, tracks = probability.shape
    tiny = np.finfo(float).tiny
    odds = np.log(np.maximum(probability, tiny)) - np.log(np.maximum(1 - probability, tiny))
    # As many nobodies as there are detections: each may go to its own.
    alone = np.full((count, count), np.log(none) - np.log1p(-none))
    rows, columns = linear_sum_assignment(np.concatenate([odds, alone], 1), maximize=True)
    found = np.full(count, NOBODY)
    found[rows] = np.where(columns < tracks, columns, NOBODY)
    return found


@dataclass
class Tracker:
    """Gives the detections of one frame after the other the numbers of their tracks.

    A track lies at the product of the beliefs about its detections, so that a poor picture moves it little. A detection
    that fits no track begins one, unless its uncertainty is above `doubtful`: then it belongs to nobody. With
    `weighted=False` nobody's confidence is heard: plain means, and every stranger is a new track.

    Places are compared, as if every detection had the `usual` uncertainty: the matcher knows distances of beliefs.
    """

    matcher: Matcher
    usual: float = 0.0
    doubtful: float = np.inf
    none: float = 0.5  # P(same) below which a detection is a stranger
    weighted: bool = True

    def __post_init__(self) -> None:
        self._tracks: list[Embedding] = []  # the detections of each

    def see(self, frame: Embedding) -> np.ndarray:
        """The track of every detection, (Q,)."""
        found = np.full(len(frame), NOBODY)
        if self._tracks:
            found = associate(self._probability(frame), none=self.none)
        firm = frame.uncertainty.double().numpy() <= (self.doubtful if self.weighted else np.inf)
        for row, track in enumerate(found):
            if track != NOBODY:
                self._tracks[track] = cat([self._tracks[track], frame[row]])
            elif firm[row]:
                found[row] = len(self._tracks)
                self._tracks.append(frame[row])
        return found

    def _probability(self, frame: Embedding) -> np.ndarray:
        """P(same) of every detection and every track, (Q, T)."""
        groups = np.repeat(np.arange(len(self._tracks)), [len(track) for track in self._tracks])
        tracks = point_estimates(prototypes(cat(self._tracks), groups, weighted=self.weighted))
        squared = expected_squared_distance(point_estimates(frame), tracks).double()
        return self.matcher.probability((squared + 2 * self.usual).sqrt()).numpy()


def identity_switches(identities: Sequence[ArrayLike], tracks: Sequence[ArrayLike]) -> int:
    """How often an identity goes on under another track than the last it had; both frame by frame.

    Detections of nobody are passed over.

    >>> identity_switches([["a", "b"], ["a", "b"], ["a"]], [[0, 1], [1, 0], [1]])
    2
    """
    last: dict[str, int] = {}
    switches = 0
    for names, numbers in zip(identities, tracks, strict=True):
        known, found = checks.names("identities", names), np.asarray(numbers)
        checks.same_length(identities=known, tracks=found)
        for name, number in zip(known.tolist(), found.tolist(), strict=True):
            if number == NOBODY:
                continue
            switches += last.get(name, number) != number
            last[name] = number
    return switches
