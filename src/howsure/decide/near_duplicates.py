"""Which queries lie nearer to a gallery item than different pictures do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding, Point

FALSE_ALARMS = 0.05  # near-duplicates that are expected where there are none
LOW, HIGH = 0.01, 0.1  # shares of the references between which the tail is measured
LEAST, MOST = 300, 1_000  # references of a sort, for the tail of fewer is guesswork; and of the gallery
BLOCK = 256  # queries compared together

# Of the root mean square distance to the centre. One picture in batches of 1 to 300, by one thread or two, has moved by
# up to 5e-6 of its own distance to the centre, over the named backbones.
ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Nearest:
    """The gallery item nearest to each of N queries, by point estimates."""

    position: np.ndarray  # (N,)
    equal: np.ndarray  # (N,) bool: their distance is zero, up to rounding
    near_duplicate: np.ndarray  # (N,) bool: nearer than different pictures are


def nearest(
    query: Embedding, labels: Sequence[str | None], gallery: Embedding, identities: Sequence[str | None]
) -> Nearest:
    """A query is a near-duplicate where chance would bring no pair of different pictures so near.

    The references are gallery items, each with the nearest other one. Let 1 % of them have one within d₁, and 10 %
    within d₂. Near zero the share within a distance d grows like its power k, the dimension that they fill: (d / d₁)^k,
    k = log 10 / log(d₂ / d₁). The limit is the d within which `FALSE_ALARMS` queries are expected, in as many pairs as
    they form with the gallery. Pairs of one label are judged apart from other pairs: where an identity has one item in
    the gallery, its queries are nearer than any two items there. Where the gallery has fewer than `LEAST` references of
    a sort, the queries are taken; where these are too few too, none is a near-duplicate.
    """
    points, items = (side.point_estimate.detach().cpu() for side in (query, gallery))
    codes = _codes([*labels, *identities])
    ours, theirs = codes[: len(labels)], codes[len(labels) :]
    found = _scan(points, ours, items, theirs)
    zero = ROUNDING * float(items.float().var(0, correction=0).sum().sqrt())
    some = np.random.default_rng(0).permutation(len(items))[:MOST]
    references = (
        _scan(items[some], theirs[some], items, theirs, own=some),
        _scan(points, ours, points, ours, own=np.arange(len(points))),
    )
    ours_limits, theirs_limits = (_limits(one, found.pairs, zero) for one in references)
    limits = np.where(ours_limits > 0, ours_limits, theirs_limits)
    sort = found.distance.argmin(0)
    position, distance = (np.take_along_axis(of, sort[None], 0)[0] for of in (found.position, found.distance))
    # In two dimensions chance brings different pictures as near as rounding does copies.
    equal = np.where(limits > 0, np.minimum(limits, zero), zero)
    return Nearest(position, distance <= equal[sort], distance < limits[sort])


@dataclass(frozen=True, eq=False)
class _Scan:
    """The nearest item of the same label, and of another, for each of N: (2, N); and the pairs of each sort, (2,)."""

    position: np.ndarray
    distance: np.ndarray  # inf where there is none
    pairs: np.ndarray


def _scan(query: Tensor, codes: np.ndarray, items: Tensor, others: np.ndarray, own: np.ndarray | None = None) -> _Scan:
    """With `own`, the position of each query among the items, it does not see itself."""
    single = Point(items.float())
    positions, pairs = [np.empty((2, 0), int)], np.zeros(2)
    for start in range(0, len(query), BLOCK):
        rows = slice(start, start + BLOCK)
        block = expected_squared_distance(Point(query[rows].float()), single)
        same = torch.from_numpy(codes[rows][:, None] == others)
        if own is not None:
            block[torch.arange(len(block)), torch.from_numpy(own[rows])] = torch.inf
        positions.append(np.stack([block.masked_fill(hidden, torch.inf).argmin(1).numpy() for hidden in (~same, same)]))
        mates = int(same.sum())
        pairs += mates - len(block) * (own is not None), same.numel() - mates
    position = np.concatenate(positions, 1)
    # Float32 has found them; how far they are is measured again, for it cannot tell a small distance from none.
    gaps = (query.double() - items[torch.from_numpy(position)].double()).square().sum(-1).sqrt().numpy()  # (2, N)
    sort = np.array([[True], [False]])
    held = (others[position] == codes) == sort
    if own is not None:
        held &= position != own
    return _Scan(position, np.where(held, gaps, np.inf), pairs)


def _limits(references: _Scan, pairs: np.ndarray, zero: float) -> np.ndarray:
    """For pairs of each sort the distance within which half of `FALSE_ALARMS` are expected, (2,); 0 if not known."""
    limits = np.zeros(2)
    for sort in (0, 1):
        distances = references.distance[sort]
        known = np.sort(distances[(distances > zero) & np.isfinite(distances)])
        if len(known) >= LEAST and pairs[sort]:
            first, tenth = known[round(LOW * len(known))], known[round(HIGH * len(known))]
            expected = LOW * len(known) * pairs[sort] / references.pairs[sort]  # queries as near as `first`
            power = math.log(HIGH / LOW) / math.log(tenth / first) if tenth > first else math.inf
            limits[sort] = first * min(1.0, FALSE_ALARMS / 2 / expected) ** (1 / power)
    return limits


def _codes(labels: Sequence[str | None]) -> np.ndarray:
    """A number for each label; each item without one has its own."""
    numbers: dict[str, int] = {}
    return np.array([-1 - row if name is None else numbers.setdefault(name, row) for row, name in enumerate(labels)])
