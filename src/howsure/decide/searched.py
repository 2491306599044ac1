"""Queries searched by brute force in two ways, by expected distance and by means, and what is evidence in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from howsure.decide.evidence import NEAREST, Evidence, Own, second_best, two_as_one, weigh
from howsure.embeddings import Embedding, point_estimates
from howsure.neighbours import Neighbours

Ranking = Literal["distance", "mean"]  # by expected distance, or by the distance between point estimates

BLOCK = 256  # queries whose candidates are compared member by member together


def ranked(embedding: Embedding, by: Ranking) -> Embedding:
    """Items as this ranking compares them: as they are, or their point estimates."""
    return point_estimates(embedding) if by == "mean" else embedding


@dataclass(frozen=True, eq=False)
class Searched:
    """Q queries, the matches of each, best first, and what they are evidence of."""

    evidence: Evidence
    either: Evidence  # what it would be if the two best identities of each query were one
    distances: np.ndarray  # (Q, k)
    identities: np.ndarray  # (Q, k)

    @property
    def best(self) -> np.ndarray:
        """(Q,) the identity of the best match."""
        first: np.ndarray = self.identities[:, 0]
        return first

    def __getitem__(self, rows: np.ndarray) -> Searched:
        return Searched(self.evidence[rows], self.either[rows], self.distances[rows], self.identities[rows])

    def in_two(self, wanted: np.ndarray) -> np.ndarray:
        """(Q,) whether the identity that is wanted is one of the two best."""
        two: np.ndarray = (self.best == wanted) | (second_best(self.identities) == wanted)
        return two


def searched(
    query: Embedding, gallery: Embedding, names: np.ndarray, near: Neighbours, *, by: Ranking, unit: float
) -> Searched:
    """From the nearest items of each query, ranked as `by` says."""
    found = names[near.positions]
    members = members_of(query, gallery, near.positions, found)
    own = own_of(query, gallery.uncertainty.double().numpy()[near.positions[:, 0]], members=members, by=by)
    evidence = weigh(near.distances, found, own, unit=unit)
    either = weigh(near.distances, *two_as_one(found, own), unit=unit)
    return Searched(evidence, either, near.distances, found)


def own_of(query: Embedding, match_uncertainty: np.ndarray, *, members: np.ndarray | None, by: Ranking) -> Own:
    """What queries bring besides their matches, the best of which have this uncertainty."""
    uncertainty = query.uncertainty.double().numpy()
    novelty = None if query.novelty is None else query.novelty.double().numpy()
    return Own(uncertainty, novelty, uncertainty + match_uncertainty, members, between_means=by == "mean")


def members_of(
    query: Embedding, gallery: Embedding, positions: np.ndarray, identities: np.ndarray
) -> np.ndarray | None:
    """(Q, S, k) identities of the candidates, (Q, c) positions, nearest to each draw; None where there is one draw."""
    if len(query.by_draw()) < 2 or len(gallery.by_draw()) != len(query.by_draw()):
        return None
    parts = []
    for start in range(0, len(query), BLOCK):
        rows = slice(start, start + BLOCK)
        parts.append(nearest_to_members(query[rows], gallery[positions[rows].ravel()], identities[rows]))
    return np.concatenate(parts)


def nearest_to_members(query: Embedding, candidates: Embedding, identities: np.ndarray) -> np.ndarray:
    """(Q, S, k) identities of the k candidates nearest to each draw, by its own point estimates.

    Query i has the candidates i·c to (i + 1)·c - 1, of the identities of row i of (Q, c).
    """
    count, width = identities.shape
    order = []
    for own, theirs in zip(query.by_draw(), candidates.by_draw(), strict=True):
        a = own.point_estimate.double()[:, None]
        gaps = (a - theirs.point_estimate.double().view(count, width, -1)).square().sum(-1)
        order.append(torch.sort(gaps, dim=1, stable=True).indices[:, :NEAREST].numpy())
    return np.take_along_axis(identities[:, None], np.stack(order, 1), 2)
