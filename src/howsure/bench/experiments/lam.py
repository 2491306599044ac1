"""The experiment of the Laplacian metric learner, for any embedder. Pictures: training, test, unfamiliar."""

from __future__ import annotations

from typing import Any

from howsure.bench.lam import judged
from howsure.bench.sets import Sets
from howsure.bench.work import Work

__all__ = ["run"]


def run(work: Work) -> dict[str, Any]:
    """Train or fit, then judge."""
    sets = Sets(work.pictures("training"), work.pictures("test"), work.pictures("unfamiliar"))
    embedder = work.embedder(sets.training)
    found = judged(embedder, sets, seed=work.seed)
    more: dict[str, Any] = {key: embedder.card[key] for key in ("laplace", "alignment") if key in embedder.card}
    return {"metrics": found.metrics, "curves": found.curves, **more}
