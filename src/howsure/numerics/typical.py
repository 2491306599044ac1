"""What is typical of a sample in several numbers, and how far others are from it towards the worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from howsure.errors import InputError

TAIL = 0.95  # the quantile that gives the spread to each side


@dataclass(frozen=True)
class Typical:
    """Of M numbers: which way they get worse (1 up, -1 down, 0 both), medians, and standard deviations to each side."""

    worse: tuple[int, ...]
    median: tuple[float, ...]
    below: tuple[float, ...]
    above: tuple[float, ...]

    def deviations(self, values: np.ndarray) -> np.ndarray:
        """(n, M) in standard deviations towards the worse; 0 for what is better; signed where both ways are worse."""
        off = values - np.array(self.median)
        scaled = off / np.where(off > 0, np.array(self.above), np.array(self.below))
        worse = np.array(self.worse)
        return np.where(worse == 0, scaled, np.maximum(scaled * worse, 0))

    def distance(self, values: np.ndarray) -> np.ndarray:
        """(n,) roots of the sum of squared deviations: what gets worse in one number never gets nearer."""
        return np.sqrt((self.deviations(values) ** 2).sum(1))

    @classmethod
    def from_json(cls, keys: Mapping[str, Sequence[float]]) -> Typical:
        """What `asdict` wrote."""
        return cls(
            tuple(int(way) for way in keys["worse"]), tuple(keys["median"]), tuple(keys["below"]), tuple(keys["above"])
        )


def fit_typical(values: np.ndarray, worse: Sequence[int], *, least: Sequence[float]) -> Typical:
    """From (n, M) values; `least` has the smallest standard deviation that counts, for each of the M.

    Spreads come from quantiles, so a few outliers move little.

    >>> sizes = fit_typical(np.arange(100.0)[:, None], [-1], least=[1.0])
    >>> sizes.deviations(np.array([[49.5], [200.0], [4.95]])).round(1).ravel().tolist()
    [0.0, 0.0, 1.6]
    """
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise InputError("values", expected="(n, M), finite", got=str(values.shape))
    low, median, high = np.quantile(values, [1 - TAIL, 0.5, TAIL], axis=0)
    below, above = (np.maximum(gap / norm.ppf(TAIL), least).tolist() for gap in (median - low, high - median))
    return Typical(tuple(worse), tuple(median.tolist()), tuple(below), tuple(above))
