"""How many candidates a search by likelihood on a server takes, and what share of the most likely is among them.

The items of a sample are searched for with their own beliefs, among candidates and among all, each left out of its own
results. Where every belief has one variance, few candidates are enough; elsewhere shrunk means tell less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from howsure.embeddings import Embedding
from howsure.index.remote.candidates import CANDIDATES
from howsure.index.remote.contract import Server
from howsure.index.remote.likelihood import SMALL
from howsure.index.remote.search import RemoteSearch

SAMPLE, BEST = 32, 10  # items asked for, and how many of the most likely of each are looked for
COUNTS = (CANDIDATES, 4 * CANDIDATES)  # candidates: the first number that finds enough, or the last
TARGET = 0.95
# All items are read for it, so it is done again only when there are so many times as many, and not for more than these.
GROWN, LARGEST = 1.5, 1_000_000


def is_due(notes: dict[str, Any]) -> bool:
    """Whether what is noted is of too small a gallery, or nothing is; False where nothing is needed, or too much."""
    if not notes.get("shrunk") or not SMALL < notes["count"] <= LARGEST:
        return False
    known = notes.get("recall")
    return known is None or bool(notes["count"] >= GROWN * known["count"])


def estimated_recall(
    server: Server, notes: dict[str, Any], query: Embedding, names: Sequence[str]
) -> dict[str, Any] | None:
    """For the notes: candidates, recall and of how many items. None where two points have no likelihood."""
    if not all((draw.variance > 0).all() for draw in query.by_draw()):
        return None

    def found(**how: Any) -> list[set[str]]:
        matches = RemoteSearch(query, BEST + 1, None, "likelihood", **how).run(server, notes)
        return [set(row) - {own} for row, own in zip(matches.ids.tolist(), names, strict=True)]

    best, value, candidates = found(approximate=False), 0.0, 0
    for candidates in COUNTS:
        pairs = zip(found(approximate=True, candidates=candidates), best, strict=True)
        value = float(np.mean([len(ours & most) / len(most) for ours, most in pairs]))
        if value >= TARGET:
            break
    return {"value": value, "candidates": candidates, "count": notes["count"]}
