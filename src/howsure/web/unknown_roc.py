"""Would it notice a stranger? Items of the gallery are asked about with and without the pictures of their identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from howsure.decide import DEPTH, Policy, weigh
from howsure.embeddings import Embedding
from howsure.metrics import auroc
from howsure.metrics.thresholds import counts
from howsure.neighbours import Neighbours, neighbours

__all__ = ["Roc", "unknown_roc"]

ASKED = 1_000  # items, by lot
POINTS = 200  # of the curve


@dataclass(frozen=True, eq=False)
class Roc:
    """Shares of the known that are called unknown, and of the unknown that are, as the threshold falls."""

    false_positive: list[float]
    true_positive: list[float]
    auroc: float


def unknown_roc(belief: Embedding, codes: np.ndarray, policy: Policy, *, go_on: Callable[[], None]) -> Roc | str:
    """By the policy's own log-odds that nothing in the gallery is it; or why it cannot be told.

    An item is left out and asked about twice: among all others, where its identity is there to be found, and among
    those of other identities. Before each block `go_on` may raise.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    paired = np.flatnonzero((codes >= 0) & (sizes[np.maximum(codes, 0)] > 1))
    if not len(paired) or np.count_nonzero(sizes) < 2:
        return "it takes two labels, one of them with two pictures"
    asked = np.sort(np.random.default_rng(0).permutation(paired)[:ASKED])
    exact = belief.map(lambda tensor: tensor.detach().to("cpu", torch.float64))
    # Items without a label are identities of their own.
    whose = np.where(codes >= 0, codes, codes.max(initial=0) + 1 + np.arange(len(codes)))
    query = exact[asked]

    def itself(rows: np.ndarray) -> np.ndarray:
        mask: np.ndarray = np.arange(len(whose)) == asked[rows][:, None]
        return mask

    def own(rows: np.ndarray) -> np.ndarray:
        mask: np.ndarray = whose == whose[asked[rows]][:, None]
        return mask

    known, unknown = (
        _score(exact, asked, neighbours(query, exact, depth=DEPTH, hidden=hidden, before_block=go_on), whose, policy)
        for hidden in (itself, own)
    )
    score = np.concatenate([known, unknown])
    stranger = np.arange(len(score)) >= len(asked)
    curve = counts(stranger, score, names=("unknown", "score"))
    some = np.unique(np.linspace(0, len(curve.threshold) - 1, POINTS).round().astype(int))
    return Roc(
        false_positive=[0.0, *(curve.negatives[some] / len(asked)).tolist()],
        true_positive=[0.0, *(curve.positives[some] / len(asked)).tolist()],
        auroc=auroc(stranger, score),
    )


def _score(belief: Embedding, rows: np.ndarray, near: Neighbours, whose: np.ndarray, policy: Policy) -> np.ndarray:
    uncertainty, novelty = belief.uncertainty.numpy(), belief.novelty
    evidence = weigh(
        policy.matcher,
        near.distances,
        whose[near.positions],
        uncertainty[rows],
        None if novelty is None else novelty.numpy()[rows],
        match_uncertainty=uncertainty[near.positions[:, 0]],
    )
    odds = policy.chances.scores(evidence)
    return -odds.right if policy.chances.absent is None else odds.none
