"""The N-digit MNIST experiment of hedged instance embeddings. Pictures: digits, `n-digit-mnist-N`."""

from __future__ import annotations

from typing import Any

from howsure.bench.experiments import flat
from howsure.bench.n_digit import SEVERITIES, judge_all, matchers_of
from howsure.bench.work import Work

__all__ = ["run"]

SPLITS = {"seen": ("number-test-seen", SEVERITIES), "unseen": ("number-test-unseen", ((0, 28), (0, 22)))}
FEW = ((0, 28), (0, 22))  # severities of a quick run


def run(work: Work) -> dict[str, Any]:
    """Train, then judge numbers seen in training and others: metrics are `SPLIT.CONDITION.NAME`."""
    embedder = work.embedder(work.pictures("digits"))
    digits = int(work.table.data["digits"].rpartition("-")[2])
    judged = {
        name: judge_all(embedder, split, digits=digits, severities=FEW if work.quick else severities)
        for name, (split, severities) in SPLITS.items()
    }
    return {"metrics": flat(judged), "links": [matcher.to_json() for matcher in matchers_of(embedder)]}
