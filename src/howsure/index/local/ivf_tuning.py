"""Make an IVF for a snapshot, and find out how many cells must be probed, and how many of their rows kept."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from howsure.index.layout import Layout
from howsure.index.local.engine import EmbeddedEngine
from howsure.index.local.ivf import BEST, FROM, Ivf, build_ivf
from howsure.index.local.likelihood import rank_by_likelihood
from howsure.index.ranking.likelihood import TARGET

PROBES = (1, 2, 4, 8, 16, 32, 64)  # cells read; where more are needed, the data have no structure that an IVF could use
COUNTS = (50, 200, 800, 3200)  # rows found for a query
BETTER = 0.02  # recall that is worth four times the rows
SAMPLE, LEAST, PAIRS = 64, 16, 20_000_000


def make_ivf(engine: EmbeddedEngine, layout: Layout) -> None:
    """Make an IVF for the snapshot that the engine has just written, if it is large enough for one.

    The items of a sample are searched for with their own embeddings, among all and by IVF, each left out of its own
    results. As few rows are found, and as few cells read for them, as give `TARGET` of what a full comparison finds, by
    a standard error or more. If nothing does, what gives most is kept, and more rows only where they are worth it.
    """
    shrunk = engine.shrunk
    if shrunk is None or len(engine) < FROM:
        return
    numbers = engine.numbers()
    sample = min(SAMPLE, max(LEAST, PAIRS // len(numbers)))
    chosen = np.random.default_rng(0).choice(numbers, sample, replace=False)
    query = layout.unpack(engine.records(chosen), np.float64)
    if not all((draw.variance > 0).all() for draw in query.by_draw()):
        return  # two points have no likelihood, so the recall of an IVF is undefined
    index = build_ivf(shrunk.means())

    def found(approximate: bool | None) -> list[set[int]]:
        ranking = rank_by_likelihood(query, BEST + 1, engine=engine, layout=layout, approximate=approximate)
        return [set(row) - {own} for row, own in zip(ranking.numbers.tolist(), chosen.tolist(), strict=True)]

    truth = found(False)

    def recall(approximate: bool | None) -> tuple[float, float]:
        shared = [len(ours & best) / len(best) for ours, best in zip(found(approximate), truth, strict=True)]
        return float(np.mean(shared)), float(np.std(shared)) / len(shared) ** 0.5

    shrunk.ivf = None
    best = Ivf(index, PROBES[0], 0.0, recall(None)[0], COUNTS[0])
    for count, probes in product(COUNTS, [number for number in PROBES if number <= index.nlist]):
        shrunk.ivf = replace(best, probes=probes, count=count)
        reached, error = recall(True)
        enough = reached - error >= TARGET  # so that it is not by luck
        if enough or reached > best.recall + (BETTER if count > best.count else 0):
            best = replace(shrunk.ivf, recall=reached)
        if enough:
            break
    engine.keep(best)
