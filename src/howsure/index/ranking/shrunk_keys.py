"""Embedding -> vector, for a search by likelihood: the mean that a prior over identities leaves of an item.

With S draws of shrunk means m~_s, counted from the centre of the prior, and the query's means m_s,

    row = [m~_1/√S, ..., m~_S/√S, |m~|², 1, v~]           of an item, |m~|² = mean_s |m~_s|²
    key = [m_1/√S, ..., m_S/√S, -½, 0, 0]                 of a query

so that row · key = ½|m|² - ½|m - m~|² ranks by plain L2 among shrunk means. v~ is the shrunk variance of an item that
has one for all dimensions, and -1 for any other. Rows end in zeros up to a multiple of 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.ranking.keys import LARGEST, matching_draws, scaled_draws
from howsure.index.ranking.pairwise import PairMoments, squared_lengths
from howsure.prior import Prior


def shrunk_width(draws: int, dim: int) -> int:
    """The number of columns of a row: S·D + 3, up to the next multiple of 4."""
    return -(-(draws * dim + 3) // 4) * 4


def shrunk_rows(embedding: Embedding, prior: Prior) -> np.ndarray:
    """(N, shrunk width) float32.

    >>> from howsure import Gaussian
    >>> prior = Prior(torch.tensor([1.0]), torch.tensor([1.0]))
    >>> shrunk_rows(Gaussian(torch.tensor([[5.0]]), torch.tensor([[1.0]])), prior)
    array([[2. , 4. , 1. , 0.5]], dtype=float32)
    """
    shrunk = prior.shrink(embedding.map(lambda tensor: tensor.detach().to("cpu", torch.float64)))
    moments, draws = PairMoments.from_draws(shrunk.by_draw()), len(shrunk.by_draw())
    rows = scaled_draws([mean - prior.arrays[0] for mean in moments.means], shrunk_width(draws, prior.dim))
    return _completed(rows, draws * prior.dim, _one_variance(moments))


def rows_of(means: np.ndarray) -> np.ndarray:
    """The row that an item at each of these means, (N, S·D), would have, were it without variance."""
    dim = means.shape[1]
    return _completed(scaled_draws([means], shrunk_width(1, dim)), dim, np.zeros(len(means)))


@dataclass(frozen=True, eq=False)
class ShrunkQuery:
    """Q queries, ready to meet rows."""

    keys: np.ndarray  # (Q, shrunk width) float32
    half: np.ndarray  # (Q,) float64: ½|m|²
    variance: np.ndarray  # (Q,) float64: of a query that has one for all dimensions; -1 for any other
    variances: np.ndarray  # (Q, D) or (Q, 1) float64: of each dimension, in the first draw
    dim: int

    @classmethod
    def from_query(cls, query: Embedding, prior: Prior, draws: int) -> ShrunkQuery:
        """For a gallery of `draws` draws. A query is not shrunk."""
        single, centre = len(query.by_draw()) == 1, prior.arrays[0]
        parts = PairMoments.from_draws(matching_draws(query, draws))
        means = [mean - centre for mean in parts.means] * (draws // len(parts.means))
        keys = scaled_draws(means, shrunk_width(draws, len(centre)))
        half = 0.5 * squared_lengths(keys)
        largest = (2 * float(half.max(initial=0))) ** 0.5  # or less
        if not largest <= LARGEST:  # so that NaN is refused too
            query.checked()
            raise InputError("query", expected=f"values up to {LARGEST:g}", got=f"{largest:g}")
        keys[:, draws * len(centre)] = -0.5
        # A query of draws is not what its total variance says.
        variance = _one_variance(parts) if single else np.full(len(query), -1.0)
        return cls(keys.astype(np.float32), half, variance, parts.variances[0], len(centre))

    def __getitem__(self, rows: slice | np.ndarray) -> ShrunkQuery:
        return ShrunkQuery(self.keys[rows], self.half[rows], self.variance[rows], self.variances[rows], self.dim)

    def __len__(self) -> int:
        return len(self.half)


def _completed(rows: np.ndarray, end: int, variance: np.ndarray) -> np.ndarray:
    rows[:, end] = np.square(rows[:, :end]).sum(1)
    rows[:, end + 1], rows[:, end + 2] = 1, variance
    return rows.astype(np.float32)


def _one_variance(moments: PairMoments) -> np.ndarray:
    """(N,): the variance of an item that has one for all dimensions, -1 for any other, and for draws."""
    variance = moments.variances[0]
    if len(moments.variances) > 1:
        return np.full(len(variance), -1.0)
    if variance.shape[1] == 1:
        return variance[:, 0]
    return np.where((variance == variance[:, :1]).all(1), variance[:, 0], -1.0)
