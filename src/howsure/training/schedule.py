"""How the learning rate changes over a run."""

from __future__ import annotations

import math

WARM = 0.3  # the share of a cycle in which the rate rises
FIRST, LAST = 1 / 25, 1e-4  # of the highest rate


def learning_rate(schedule: str, highest: float, *, progress: float) -> float:
    """The rate at a share `progress` of the run, 0 to 1.

    `one-cycle` rises to the highest rate along a cosine and falls to almost nothing: few epochs then go far.

    >>> [round(learning_rate("one-cycle", 1.0, progress=at), 4) for at in (0, 0.3, 0.65, 1)]
    [0.04, 1.0, 0.5, 0.0001]
    """
    if schedule == "constant":
        return highest
    rising = progress < WARM
    start, end = (FIRST, 1.0) if rising else (1.0, LAST)
    way = progress / WARM if rising else (progress - WARM) / (1 - WARM)
    return highest * (end + (start - end) * (1 + math.cos(math.pi * way)) / 2)
