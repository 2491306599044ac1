"""Would it notice an unknown identity? Items are asked about with and without the other pictures of their identity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from howsure.decide import DEPTH, Policy
from howsure.decide.searched import searched
from howsure.embeddings import Embedding
from howsure.metrics import auroc
from howsure.metrics.thresholds import counts
from howsure.neighbours import Neighbours, neighbours
from howsure.web.schemas import RocReply

__all__ = ["unknown_roc"]

ASKED = 1_000  # items, at random
POINTS = 200  # of the curve


def unknown_roc(
    embedding: Embedding, codes: np.ndarray, policy: Policy, *, go_on: Callable[[], None]
) -> RocReply | str:
    """Unknown items called unknown against known ones called unknown, as the threshold falls; or why there is none.

    By the policy's own log-odds that nothing in the gallery is it. An item is left out and asked about twice: among all
    others, where its identity is known, and among those of other identities. Before each block `go_on` may raise.
    """
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    paired = np.flatnonzero((codes >= 0) & (sizes[np.maximum(codes, 0)] > 1))
    if not len(paired) or np.count_nonzero(sizes) < 2:
        return "it takes two labels, one of them with two pictures"
    asked = np.sort(np.random.default_rng(0).permutation(paired)[:ASKED])
    exact = embedding.map(lambda tensor: tensor.detach().to("cpu", torch.float64))
    items = np.arange(len(codes))
    # Items without a label are identities of their own.
    identity = np.where(codes >= 0, codes, codes.max(initial=0) + 1 + items)
    query, score = policy.ranked(exact[asked]), np.empty(0)
    for group in (items, identity):  # what a query does not see: itself, then its whole identity
        hidden = partial(_same_group, group, asked)
        near = neighbours(query, policy.ranked(exact), depth=DEPTH, hidden=hidden, before_block=go_on)
        score = np.append(score, _score(exact, asked, near, identity, policy))
    unknown = np.arange(len(score)) >= len(asked)
    curve = counts(unknown, score, names=("unknown", "score"))
    some = np.unique(np.linspace(0, len(curve.threshold) - 1, POINTS).round().astype(int))
    return RocReply(
        false_positive=[0.0, *(curve.negatives[some] / len(asked)).tolist()],
        true_positive=[0.0, *(curve.positives[some] / len(asked)).tolist()],
        auroc=auroc(unknown, score),
    )


def _same_group(group: np.ndarray, asked: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.equal(group, group[asked[rows]][:, None])


def _score(
    embedding: Embedding, rows: np.ndarray, near: Neighbours, identity: np.ndarray, policy: Policy
) -> np.ndarray:
    by, unit = policy.choice.by, policy.choice.unit
    odds = policy.chances.scores(searched(embedding[rows], embedding, identity, near, by=by, unit=unit).evidence)
    return -odds.right if policy.chances.absent is None else odds.none
