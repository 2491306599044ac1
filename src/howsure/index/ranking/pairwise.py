"""Exact comparisons of a few pairs, in float64: `rms_distance` and `log_likelihood_ratio` in numpy.

A search compares some dozens of pairs for a query. There the arithmetic takes less time than it takes torch to start
each operation, so these work on plain arrays, and once for all dimensions where an item has one variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.layout import Layout
from howsure.prior import Prior

# Mean and variance in the records of families that hold them. Torch can read all families, but takes longer than the
# comparison that follows.
_READ: Mapping[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "gaussian": lambda records: (records["location"].astype(float), np.square(records["scale"].astype(float))),
    "point": lambda records: (records["location"].astype(float), np.zeros((len(records), 1))),
}


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Means and variances of N items, draw by draw, in float64."""

    means: tuple[np.ndarray, ...]  # (N, D) each
    variances: tuple[np.ndarray, ...]  # (N, D) each, or (N, 1) where a family has one for all dimensions
    points: tuple[np.ndarray, ...] | None = (
        None  # (N, D) each: point estimates of records, where they are not the means
    )

    @classmethod
    def from_draws(cls, draws: Sequence[Embedding]) -> PairMoments:
        """From the draws of an embedding in float64, on the CPU."""
        return cls(tuple(draw.mean.numpy() for draw in draws), tuple(_once(draw.variance.numpy()) for draw in draws))

    @classmethod
    def from_records(cls, records: np.ndarray, layout: Layout) -> PairMoments:
        """From packed records."""
        if layout.family in _READ:
            mean, variance = _READ[layout.family](records)
            return cls((mean,), (variance,))
        draws = layout.unpack(records, np.float64).by_draw()
        moments = cls.from_draws(draws)
        if layout.mean_is_point_estimate:
            return moments
        return replace(moments, points=tuple(draw.point_estimate.numpy() for draw in draws))

    def __len__(self) -> int:
        return len(self.means[0])

    def __getitem__(self, rows: np.ndarray | slice) -> PairMoments:
        return PairMoments(tuple(part[rows] for part in self.means), tuple(part[rows] for part in self.variances))

    @cached_property
    def totals(self) -> tuple[np.ndarray, ...]:
        """Variances summed over the dimensions, (N,) each."""
        return tuple(
            variance.sum(-1) if variance.shape == mean.shape else mean.shape[-1] * variance[..., 0]
            for mean, variance in zip(self.means, self.variances, strict=True)
        )


def distances(query: PairMoments, gallery: PairMoments) -> np.ndarray:
    """`rms_distance` of row with row, or of the only query with each, (N,)."""
    pairs = zip(_aligned(query.means, gallery.means), _aligned(query.totals, gallery.totals), strict=True)
    return np.sqrt(_average([squared_lengths(m - mean) + v + variance for (m, mean), (v, variance) in pairs]))


def point_distances(query: PairMoments, gallery: PairMoments) -> np.ndarray:
    """From points to the gallery's point estimates, of row with row, or of the only query with each, (N,)."""
    pairs = _aligned(query.means, gallery.points or gallery.means)
    return np.sqrt(_average([squared_lengths(point - other) for point, other in pairs]))


def item_uncertainty(query: PairMoments, gallery: PairMoments) -> np.ndarray:
    """`uncertainty` of the gallery's items, (N,), whatever the query: within draws and between them."""
    if len(gallery.means) == 1:
        return gallery.totals[0]
    centre = _average(gallery.means)
    return _average(gallery.totals) + _average([squared_lengths(mean - centre) for mean in gallery.means])


def log_likelihood_ratios(query: PairMoments, gallery: PairMoments, prior: Prior) -> np.ndarray:
    """`log_likelihood_ratio` of row with row, or of the only query with each, (N,)."""
    centre, between = prior.arrays
    values = []
    pairs = zip(_aligned(query.means, gallery.means), _aligned(query.variances, gallery.variances), strict=True)
    for (m, mean), (v, variance) in pairs:
        weight = between / (between + variance)
        alone, total = between + v, v + weight * variance
        if not total.min(initial=1) > 0:
            raise InputError(
                "mutual likelihood", expected="embeddings with some variance", got="two points", fix="use rms_distance"
            )
        apart, shrunk = m - centre, mean - centre
        shrunk *= weight
        values.append(_log_density_ratio(apart - shrunk, total, apart, alone))
    return reduce(np.logaddexp, values) - math.log(len(values)) if len(values) > 1 else values[0]


def squared_lengths(rows: np.ndarray) -> np.ndarray:
    """Of each row, (...), by products: the quickest way to them, of few rows and of many."""
    return np.asarray((rows[..., None, :] @ rows[..., None])[..., 0, 0])


def _log_density_ratio(near: np.ndarray, total: np.ndarray, apart: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """½ Σ apart²/alone - near²/total + log alone/total."""
    if total.shape[-1] == alone.shape[-1] == 1:
        one, other = total[..., 0], alone[..., 0]
        gain = squared_lengths(apart) / other - squared_lengths(near) / one
        return np.asarray(0.5 * (gain + near.shape[-1] * np.log(other / one)))
    return np.asarray(0.5 * (apart * apart / alone - near * near / total + np.log(alone / total)).sum(-1))


def _average(draws: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(sum(draws) / len(draws)) if len(draws) > 1 else draws[0]


def _aligned(query: tuple[np.ndarray, ...], gallery: tuple[np.ndarray, ...]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """The draws of both sides, one by one; a side with a single draw meets every draw of the other."""
    count = max(len(query), len(gallery))
    return zip(query * (count // len(query)), gallery * (count // len(gallery)), strict=True)


def _once(variance: np.ndarray) -> np.ndarray:
    # A family with one variance repeats it without memory: its columns are one and the same. Points have none.
    return variance[:, :1] if variance.strides[1] == 0 or not variance.any() else variance
