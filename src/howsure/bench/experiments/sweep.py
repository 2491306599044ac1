"""Pictures made worse step by step: do errors grow, and does doubt grow with them? Pictures: training, test.

Queries are corrupted, the gallery is the same test pictures as they are, each query's own left out.
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
from howsure.bench.experiments.lam import ANCHORS, told, variances
from howsure.bench.work import Work
from howsure.data import CORRUPTIONS, ImageSet, validation_split
from howsure.data.corruptions import SEVERITIES, Corruption, corrupted_set
from howsure.embedder import Embedder
from howsure.evaluation.failure_prediction import FORESEEN, failure_prediction
from howsure.evaluation.scores import Observed, observe
from howsure.neighbours import neighbours
from howsure.recipe import Recipe

__all__ = ["Step", "run", "swept"]

QUERIES = 2_000
KINDS = tuple(CORRUPTIONS)
FEW = ("noise", "occlusion")  # kinds of a quick run

Line = list[float | None]  # clean, then from slight to severe


def run(work: Work) -> dict[str, Any]:
    """Train or read, then judge; the seed of the run is that of what is random in a corruption, too."""
    training, test = work.pictures("training"), work.pictures("test")
    rows = np.linspace(0, len(test), min(QUERIES, len(test)), endpoint=False).astype(int)
    embedder = work.embedder(training)
    anchors = _anchors(embedder, training, seed=work.seed)
    free = {baseline.score for baseline in work.table.baselines if baseline.method == work.cell.method}
    kinds = FEW if work.quick else KINDS
    return swept(embedder, anchors, test.subset(rows), free=free, kinds=kinds, seed=work.seed)


def swept(
    embedder: Embedder,
    anchors: Observed,
    test: ImageSet,
    *,
    free: Collection[str] = (),
    kinds: tuple[str, ...] = KINDS,
    seed: int = 0,
) -> dict[str, Any]:
    """Metrics `KIND.NAME.SEVERITY`; the kind `all` is the mean over kinds, severity 0 is clean.

    Names: `recall_at_1`; `SCORE.r_auroc` and the like, does the score foresee these errors?; `SCORE.auroc`, does it
    tell corrupted pictures from clean ones?; `SCORE.rank`, its mean place among all pictures of the kind, clean to
    worst, from 0 to 1. `severity` holds the means over kinds, clean to worst. Scores: the ambiguity, the novelty where
    a belief keeps it, what `members` say, and the `free` ones by name, some of which cost more than all the rest.
    """
    clean = observe(embedder, test)
    scores = {name: score for name, score in told(embedder, anchors).items() if name in {*variances(anchors), *free}}
    untouched = Step.of(clean, clean, scores)
    found: dict[str, Line] = {}
    for kind in kinds:
        worse = (
            observe(embedder, corrupted_set(test, Corruption(kind, severity), seed=seed)) for severity in SEVERITIES
        )
        lines = _lines([untouched, *(Step.of(seen, clean, scores) for seen in worse)])
        found |= {f"{kind}.{name}": line for name, line in lines.items()}
    means = {name: _mean([found[f"{kind}.{name}"] for kind in kinds]) for name in lines}
    found |= {f"all.{name}": line for name, line in means.items()}
    values = {f"{name}.{step}": value for name, line in found.items() for step, value in enumerate(line)}
    return {"metrics": flat(values), "severity": means}


@dataclass(frozen=True, eq=False)
class Step:
    """Queries of one severity: which found a picture of their class, and what each score says about them."""

    right: np.ndarray
    doubts: dict[str, np.ndarray]

    @classmethod
    def of(cls, query: Observed, gallery: Observed, scores: Mapping[str, Callable[[Observed], Tensor]]) -> Step:
        """By the nearest place, the query's own picture left out."""
        near = neighbours(query.points, gallery.points, leave_one_out=True, depth=1)
        doubts = {name: score(query).double().numpy() for name, score in scores.items()}
        if query.embedding.novelty is not None:
            doubts["novelty"] = query.embedding.novelty.double().numpy()
        return cls(gallery.labels[near.positions[:, 0]] == query.labels, doubts)


def _lines(steps: Sequence[Step]) -> dict[str, Line]:
    """Every number, clean to worst; None where it is not defined."""
    lines: dict[str, Line] = {"recall_at_1": [float(step.right.mean()) for step in steps]}
    for name, usual in steps[0].doubts.items():
        told_here = [step.doubts[name] for step in steps]
        lines[f"{name}.rank"] = _ranks(np.stack(told_here)).mean(1).tolist()
        answers = [failure_prediction(doubt, step.right) for doubt, step in zip(told_here, steps, strict=True)]
        for what in FORESEEN:
            lines[f"{name}.{what}"] = [answer.get(what) for answer in answers]
        corrupted = np.arange(2 * len(usual)) >= len(usual)
        apart = [metrics.auroc(corrupted, np.concatenate([usual, doubt])) for doubt in told_here[1:]]
        lines[f"{name}.auroc"] = [None, *apart]
    return lines


def _ranks(values: np.ndarray) -> np.ndarray:
    """The place of each among all, from 0 to 1; equal values share theirs."""
    places: np.ndarray = rankdata(values, axis=None).reshape(values.shape)
    return (places - 1) / (values.size - 1)


def _mean(lines: Sequence[Line]) -> Line:
    """Step by step, where every line has a value."""
    return [None if None in values else float(np.mean(values)) for values in zip(*lines, strict=True)]


def _anchors(embedder: Embedder, training: ImageSet, *, seed: int) -> Observed:
    """Training pictures that free scores look at."""
    recipe = Recipe.from_json(embedder.card["recipe"])
    rows, _ = validation_split(training, share=recipe.validation_share, seed=recipe.seed)
    chosen = np.random.default_rng(seed).choice(rows, min(ANCHORS, len(rows)), replace=False)
    return observe(embedder, training.subset(np.sort(chosen).tolist()))
