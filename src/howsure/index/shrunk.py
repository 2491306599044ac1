"""Belief -> vector, for a search by likelihood: the mean that a prior over identities leaves of an item.

With S draws of shrunk means m~_s, counted from the centre of the prior, and the query's means m_s,

    row = [m~_1/√S, ..., m~_S/√S, |m~|², 1, v~]           of an item, |m~|² = mean_s |m~_s|²
    key = [m_1/√S, ..., m_S/√S, -½, 0, 0]                 of a query

so that row · key = ½|m|² - ½|m - m~|² ranks by plain L2 among shrunk means. v~ is the shrunk variance of an item that
has one for all dimensions, and -1 for any other. Rows end in zeros up to a multiple of 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.keys import LARGEST, matching_draws
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
    draws = shrunk.by_draw()
    rows = _rows([(draw.mean - prior.centre).numpy() for draw in draws], len(draws))
    end = len(draws) * prior.dim
    rows[:, end] = np.square(rows[:, :end]).sum(1)
    rows[:, end + 1] = 1
    rows[:, end + 2] = _one_variance(shrunk)
    return rows.astype(np.float32)


@dataclass(frozen=True, eq=False)
class ShrunkQuery:
    """Q queries, ready to meet rows."""

    keys: np.ndarray  # (Q, shrunk width) float32
    half: np.ndarray  # (Q,) float64: ½|m|²
    variance: np.ndarray  # (Q,) float64: of a query that has one for all dimensions; -1 for any other
    dim: int

    @classmethod
    def of(cls, query: Embedding, prior: Prior, draws: int) -> ShrunkQuery:
        """From a float64 query, for a gallery of `draws` draws. A query is not shrunk."""
        parts = matching_draws(query, draws)
        means = [(part.mean - prior.centre).numpy() for part in parts] * (draws // len(parts))
        keys = _rows(means, draws)
        half = 0.5 * np.square(keys).sum(1)
        largest = np.abs(keys).max(initial=0)
        if not largest <= LARGEST:  # so that NaN is refused too
            query.checked()
            raise InputError("query", expected=f"values up to {LARGEST:g}", got=f"{largest:g}")
        keys[:, draws * prior.dim] = -0.5
        return cls(keys.astype(np.float32), half, _one_variance(query), prior.dim)

    def __getitem__(self, rows: slice | np.ndarray) -> ShrunkQuery:
        return ShrunkQuery(self.keys[rows], self.half[rows], self.variance[rows], self.dim)

    def __len__(self) -> int:
        return len(self.half)


def _rows(means: Sequence[np.ndarray], draws: int) -> np.ndarray:
    count, dim = means[0].shape
    rows = np.zeros((count, shrunk_width(draws, dim)))
    for place, mean in enumerate(means):
        rows[:, place * dim : (place + 1) * dim] = mean / draws**0.5
    return rows


def _one_variance(embedding: Embedding) -> np.ndarray:
    """(N,): the variance of an item that has one for all dimensions, -1 for any other, and for draws."""
    if len(embedding.by_draw()) > 1:
        return np.full(len(embedding), -1.0)
    variance = embedding.variance.numpy()
    return np.where((variance == variance[:, :1]).all(1), variance[:, 0], -1.0)
