"""Belief -> vector: the expected squared distance as plain L2 in S·D + 1 dimensions, for every family.

With S draws of means m_s and uncertainties u_s, and the query's m'_s and u'_s,

    E|z - z'|² = |key - key'|² + constant'
    key  = [m_1/√S, ..., m_S/√S, √(mean_s u_s)]           of an item
    key' = [m'_1/√S, ..., m'_S/√S, 0]                     of a query,    constant' = mean_s u'_s

A query with one draw meets all S. A gallery with one draw meets the query's total mean, and the spread of the query's
draws joins its constant.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from howsure.embeddings import Embedding
from howsure.errors import InputError

# Squares of larger values, and of the sums of many, leave float32.
LARGEST = 1e15
# The unit roundoffs of the two precisions.
FLOAT32, FLOAT64 = 2.0**-24, 2.0**-53


def item_keys(embedding: Embedding) -> np.ndarray:
    """(N, S·D + 1) float32.

    >>> from howsure import Gaussian
    >>> item_keys(Gaussian(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])))
    array([[3., 4., 1.]], dtype=float32)
    """
    draws = embedding.to(device="cpu", dtype=torch.float64).detach().by_draw()
    uncertainty = torch.stack([draw.uncertainty for draw in draws]).mean(0)
    return _key([draw.mean for draw in draws], uncertainty.sqrt())


def query_keys(query: Embedding, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """(Q, S·D + 1) float32 and the constant of each query, (Q,) float64, for a gallery of `draws` draws."""
    query = query.to(device="cpu", dtype=torch.float64).detach()
    parts = query.by_draw() if draws > 1 else (query,)
    if len(parts) not in (1, draws):
        raise InputError(
            "draws of the query",
            expected=f"{draws}, as in the gallery, or one",
            got=str(len(parts)),
            fix="draws are compared one by one, so embed both with the same posterior",
        )
    constant = torch.stack([part.uncertainty for part in parts]).mean(0)
    means = [part.mean for part in parts] * (draws // len(parts))
    return _key(means, torch.zeros_like(constant)), constant.numpy()


def _key(means: list[Tensor], last: Tensor) -> np.ndarray:
    rows = torch.cat([*(mean / len(means) ** 0.5 for mean in means), last[:, None]], 1)
    largest = float(rows.abs().max()) if rows.numel() else 0.0
    if largest > LARGEST:
        raise InputError(
            "embedding",
            expected=f"values up to {LARGEST:g}",
            got=f"{largest:g}",
            fix="normalise the embedding, or divide it by a constant",
        )
    return rows.float().numpy()


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
    norms = 2 * np.linalg.norm(keys.astype(np.float64), axis=1) + np.sqrt(true)
    operations = (width + 8) * FLOAT32
    if operations >= 0.5:  # the bound on the error is void for keys of millions of dimensions
        return np.full(len(keys), np.inf)
    growth = operations / (1 - operations)
    return true + growth * norms**2 + 2 * FLOAT64 * (width + 8) * squared + width * 2.0**-120
