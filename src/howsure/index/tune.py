"""Make inverted lists for a snapshot, and find out how many of them must be read."""

from __future__ import annotations

import numpy as np

from howsure.index.engines.embedded import EmbeddedEngine
from howsure.index.engines.lists import FROM, Lists, build_lists
from howsure.index.layout import Layout
from howsure.index.likelihood import TARGET, rank_by_likelihood

BEST = 10
MOST = 64  # lists read at most: where more are needed, the data have no structure that lists could use
SAMPLE, LEAST, PAIRS = 64, 16, 20_000_000


def make_lists(engine: EmbeddedEngine, layout: Layout) -> None:
    """Make lists for the snapshot that the engine has just written, if it is large enough for them.

    The items of a sample are searched for with their own beliefs, among all and among lists, each left out of its own
    results. The fewest lists are read that find `TARGET` of what a full comparison finds.
    """
    shrunk = engine.shrunk
    if shrunk is None or len(engine) < FROM:
        return
    numbers = engine.numbers()
    count = min(SAMPLE, max(LEAST, PAIRS // len(numbers)))
    chosen = np.random.default_rng(0).choice(numbers, count, replace=False)
    query = layout.unpack(engine.records(chosen), np.float64)
    if not all((draw.variance > 0).all() for draw in query.by_draw()):
        return  # two points have no likelihood, so nothing would tell how good the lists are
    index = build_lists(shrunk.means())

    def found(approximate: bool | None) -> list[set[int]]:
        ranking = rank_by_likelihood(query, BEST + 1, engine=engine, layout=layout, approximate=approximate)
        return [set(row) - {own} for row, own in zip(ranking.numbers.tolist(), chosen.tolist(), strict=True)]

    truth = found(False)

    def recall(approximate: bool | None) -> float:
        shared = [len(ours & best) / len(best) for ours, best in zip(found(approximate), truth, strict=True)]
        return float(np.mean(shared))

    shrunk.lists = None
    scan_recall = recall(None)
    probes = 1
    while True:
        shrunk.lists = Lists(index, probes, 0.0, scan_recall)
        reached = recall(True)
        if reached >= TARGET or probes >= min(MOST, index.nlist):
            break
        probes *= 2
    engine.keep(Lists(index, probes, reached, scan_recall))
