"""Isotonic regression of an event: a probability that never falls as the score grows, and nothing else assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import logit

from howsure.errors import InputError


@dataclass(frozen=True)
class Isotonic:
    """Log-odds at some scores, both rising; straight in between, flat beyond.

    >>> Isotonic(scores=(0.0, 1.0), values=(-2.0, 2.0)).log_odds(np.array([-9.0, 0.25, 9.0]))
    array([-2., -1.,  2.])
    """

    scores: tuple[float, ...]
    values: tuple[float, ...]  # log-odds

    def __post_init__(self) -> None:
        rising = (np.diff(self.scores) > 0).all() and (np.diff(self.values) >= 0).all()
        if not (
            rising and len(self.scores) == len(self.values) > 0 and np.isfinite([*self.scores, *self.values]).all()
        ):
            raise InputError("steps", expected="as many log-odds as scores, both finite and rising", got="others")

    def log_odds(self, score: np.ndarray) -> np.ndarray:
        """Scores of any shape to log-odds."""
        return np.interp(score, self.scores, self.values)

    @classmethod
    def from_json(cls, keys: Mapping[str, Sequence[float]] | None) -> Isotonic | None:
        """What `asdict` wrote; None stays None."""
        return None if keys is None else cls(tuple(keys["scores"]), tuple(keys["values"]))

    def shifted(self, by: float) -> Isotonic:
        """The same evidence at other prior odds."""
        return Isotonic(self.scores, tuple(value + by for value in self.values))


def fit_isotonic(score: np.ndarray, outcome: np.ndarray) -> Isotonic:
    """Pool adjacent violators: the likeliest probabilities that never fall; equal scores stay together.

    Probabilities are kept within [1/(n + 2), 1 - 1/(n + 2)]: n examples cannot know more. It takes about a thousand;
    with few, steps follow chance.
    """
    x, y = np.asarray(score, float), np.asarray(outcome, float)
    if x.ndim != 1 or x.shape != y.shape or not len(x) or not (np.isfinite(x).all() and np.isin(y, (0, 1)).all()):
        raise InputError("score and outcome", expected="(n,) finite numbers and (n,) of 0 or 1", got=f"{x.shape}")
    scores, which, count = np.unique(x, return_inverse=True, return_counts=True)
    share = np.bincount(which, weights=y) / count
    least = 1 / (len(x) + 2)
    level = np.clip(isotonic_regression(share, weights=count).x, least, 1 - least)
    # Both ends of every block say all there is.
    turn = np.flatnonzero(np.diff(level) > 0)
    ends = np.unique(np.concatenate([[0], turn, turn + 1, [len(scores) - 1]]))
    return Isotonic(tuple(scores[ends].tolist()), tuple(logit(level[ends]).tolist()))
