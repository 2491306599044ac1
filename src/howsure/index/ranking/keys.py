"""Embedding -> vector: the expected squared distance as plain L2 in S·D + 1 dimensions, for every family.

With S draws of means m_s and uncertainties u_s, and the query's m'_s and u'_s,

    E|z - z'|² = |key - key'|² + constant'
    key  = [m_1/√S, ..., m_S/√S, √(mean_s u_s)]           of an item
    key' = [m'_1/√S, ..., m'_S/√S, 0]                     of a query,    constant' = mean_s u'_s

A query with one draw meets all S. A gallery with one draw meets the query's total mean, and the variance between the
query's draws joins its constant. Keys end in zeros up to a multiple of 4, which scans are quicker at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.errors import InputError

# Squares of larger values, and of the sums of many, leave float32.
LARGEST = 1e15
# The unit roundoffs of the two precisions.
FLOAT32, FLOAT64 = 2.0**-24, 2.0**-53


def key_width(draws: int, dim: int) -> int:
    """The number of dimensions of a key: S·D + 1, up to the next multiple of 4."""
    return -(-(draws * dim + 1) // 4) * 4


def item_keys(embedding: Embedding) -> np.ndarray:
    """(N, key width) float32.

    >>> from howsure import Gaussian
    >>> item_keys(Gaussian(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])))
    array([[3., 4., 1., 0.]], dtype=float32)
    """
    embedding = embedding.map(lambda tensor: tensor.detach().to("cpu", torch.float64))
    means, uncertainty = _moments(embedding.by_draw())
    return _key(embedding, means, np.sqrt(uncertainty))


def matching_draws(query: Embedding, draws: int) -> tuple[Embedding, ...]:
    """The draws of a query that meet those of a gallery: as many, or one for all."""
    parts = query.by_draw() if draws > 1 else (query,)
    if len(parts) not in (1, draws):
        raise InputError(
            "draws of the query",
            expected=f"{draws}, as in the gallery, or one",
            got=str(len(parts)),
            fix="draws are compared one by one, so embed both with the same posterior",
        )
    return parts


def query_keys(query: Embedding, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """(Q, key width) float32 and the constants, (Q,) float64, of a float64 query, for a gallery of `draws` draws."""
    parts = matching_draws(query, draws)
    means, constant = _moments(parts)
    keys = _key(query, means * (draws // len(parts)), np.sqrt(constant))
    keys[:, draws * query.dim] = 0
    return keys, constant


def _moments(draws: Sequence[Embedding]) -> tuple[list[np.ndarray], np.ndarray]:
    uncertainty = sum((draw.uncertainty.numpy() for draw in draws), start=np.zeros(len(draws[0]))) / len(draws)
    return [draw.mean.numpy() for draw in draws], uncertainty


def scaled_draws(means: Sequence[np.ndarray], width: int) -> np.ndarray:
    """[m_1/√S, ..., m_S/√S, 0, ...], (N, width) float64."""
    rows = np.zeros((len(means[0]), width))
    columns = np.concatenate(means, 1)
    rows[:, : columns.shape[1]] = columns / len(means) ** 0.5
    return rows


def _key(embedding: Embedding, means: list[np.ndarray], root: np.ndarray) -> np.ndarray:
    draws, dim = len(means), means[0].shape[1]
    keys = scaled_draws(means, key_width(draws, dim))
    keys[:, draws * dim] = root
    largest = np.abs(keys).max(initial=0)
    if not largest <= LARGEST:  # so that NaN is refused too
        embedding.checked()
        raise InputError(
            "embedding",
            expected=f"values up to {LARGEST:g}",
            got=f"{largest:g}",
            fix="normalise the embedding, or divide it by a constant",
        )
    return keys.astype(np.float32)


def scan_ceiling(keys: np.ndarray, squared: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """The largest squared key distance that a float32 scan can report for an item that truly lies within `squared`.

    Let t = squared - constant be a true squared key distance, n the number of key dimensions, u = 2⁻²⁴, and
    g(n) = n·u / (1 - n·u), which bounds the relative error of n float32 operations in any order, fused or not.

    - An item within t of the query has a key of norm at most |key'| + √t, by the triangle inequality. So the norms of
      the two sum to at most m = 2|key'| + √t, and nothing need be known of the norms in the gallery.
    - Rounding both keys to float32 moves the squared distance by at most (2u + u²)·m².
    - Summing (key - key')² directly errs by at most g(n + 2)·m²; expanding it to |key|² + |key'|² - 2 key·key', as
      matrix products do, by at most g(n + 3)·m².

    Together t + g(n + 8)·m². `squared` itself is a float64 sum of positive terms: 2⁻⁵²·(n + 8)·squared covers it and
    its root. The last term covers underflow.
    """
    width = keys.shape[1]
    true = np.maximum(squared - constant, 0)
    norms = 2 * np.sqrt(np.square(keys, dtype=np.float64).sum(1)) + np.sqrt(true)
    operations = (width + 8) * FLOAT32
    if operations >= 0.5:  # the bound on the error is void for keys of millions of dimensions
        return np.full(len(keys), np.inf)
    growth = operations / (1 - operations)
    return true + growth * norms**2 + 2 * FLOAT64 * (width + 8) * squared + width * 2.0**-120
