"""Corrupted pictures, severity by severity: do errors grow, and does uncertainty grow with them?

Queries are corrupted, the gallery is the same test pictures uncorrupted, each query's own left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from torch import Tensor

from howsure import metrics
from howsure.bench.experiments import flat
from howsure.bench.experiments.lam import training_anchors, uncertainty_scores, variances
from howsure.bench.work import Work
from howsure.data import CORRUPTIONS, ImageSet
from howsure.data.corruptions import SEVERITIES, Corruption, corrupted_set
from howsure.embedder import Embedder
from howsure.evaluation.failure_prediction import FAILURE_METRICS, failure_prediction
from howsure.evaluation.scores import Observed, observe
from howsure.neighbours import neighbours

__all__ = ["Step", "run", "sweep"]

QUERIES = 2_000
QUICK = ("noise", "occlusion")  # corruptions of a quick run

Line = list[float | None]  # clean, then from slight to severe


def run(work: Work) -> dict[str, Any]:
    """Train or load, then evaluate; corruptions are drawn with the seed of the run."""
    training, test = work.pictures("training"), work.pictures("test")
    rows = np.linspace(0, len(test), min(QUERIES, len(test)), endpoint=False).astype(int)
    embedder = work.embedder(training)
    anchors, _ = training_anchors(embedder, training, seed=work.seed)
    free = {baseline.score for baseline in work.table.baselines if baseline.method == work.cell.method}
    corruptions = QUICK if work.quick else tuple(CORRUPTIONS)
    return sweep(embedder, anchors, test.subset(rows), free=free, corruptions=corruptions, seed=work.seed)


def sweep(
    embedder: Embedder,
    anchors: Observed,
    test: ImageSet,
    *,
    free: Collection[str] = (),
    corruptions: Sequence[str],
    seed: int = 0,
) -> dict[str, Any]:
    """Metrics `CORRUPTION.NAME.SEVERITY`; `all` is the mean over corruptions, severity 0 is clean.

    Names: `recall_at_1`; `SCORE.r_auroc` and the like, how well the score predicts failures; `SCORE.auroc`, how well
    it tells corrupted pictures from clean ones; `SCORE.rank`, its mean rank among all pictures of the corruption,
    clean to severest, from 0 to 1. `severity` holds the means over corruptions, clean to severest. Scores: the
    ambiguity, the novelty where an embedding has it, the variance of `members`, and the training-free ones in `free`,
    some of which cost more than all the rest.
    """
    clean = observe(embedder, test)
    wanted = {*variances(anchors), *free}
    scores = {name: score for name, score in uncertainty_scores(embedder, anchors).items() if name in wanted}
    first = Step.measure(clean, clean, scores)
    found: dict[str, Line] = {}
    for corruption in corruptions:
        sets = (corrupted_set(test, Corruption(corruption, severity), seed=seed) for severity in SEVERITIES)
        lines = _lines([first, *(Step.measure(observe(embedder, images), clean, scores) for images in sets)])
        found |= {f"{corruption}.{name}": line for name, line in lines.items()}
    means = {name: _mean([found[f"{corruption}.{name}"] for corruption in corruptions]) for name in lines}
    found |= {f"all.{name}": line for name, line in means.items()}
    values = {f"{name}.{step}": value for name, line in found.items() for step, value in enumerate(line)}
    return {"metrics": flat(values), "severity": means}


@dataclass(frozen=True, eq=False)
class Step:
    """Queries of one severity: which found a picture of their class, and their scores by name."""

    right: np.ndarray
    scores: dict[str, np.ndarray]

    @classmethod
    def measure(cls, query: Observed, clean: Observed, scores: Mapping[str, Callable[[Observed], Tensor]]) -> Step:
        """By the nearest clean point estimate, the query's own picture left out."""
        values = {name: score(query).double().numpy() for name, score in scores.items()}
        if query.embedding.novelty is not None:
            values["novelty"] = query.embedding.novelty.double().numpy()
        near = neighbours(query.points, clean.points, leave_one_out=True, depth=1)
        return cls(clean.labels[near.positions[:, 0]] == query.labels, values)


def _lines(steps: Sequence[Step]) -> dict[str, Line]:
    """Every number, clean to severest; None where it is not defined."""
    lines: dict[str, Line] = {"recall_at_1": [float(step.right.mean()) for step in steps]}
    for name, clean in steps[0].scores.items():
        scores = np.stack([step.scores[name] for step in steps])
        ranks = (rankdata(scores, axis=None) - 1) / (scores.size - 1)  # equal values share theirs
        lines[f"{name}.rank"] = ranks.reshape(scores.shape).mean(1).tolist()
        failures = [failure_prediction(score, step.right) for score, step in zip(scores, steps, strict=True)]
        for metric in FAILURE_METRICS:
            lines[f"{name}.{metric}"] = [found.get(metric) for found in failures]
        corrupted = np.arange(2 * len(clean)) >= len(clean)
        aurocs = [metrics.auroc(corrupted, np.concatenate([clean, score])) for score in scores[1:]]
        lines[f"{name}.auroc"] = [None, *aurocs]
    return lines


def _mean(lines: Sequence[Line]) -> Line:
    """Step by step, where every line has a value."""
    return [None if None in values else float(np.mean(values)) for values in zip(*lines, strict=True)]
