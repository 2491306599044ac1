"""Beliefs without their doubt."""

from __future__ import annotations

from howsure.embeddings.base import Embedding
from howsure.embeddings.draws import Draws
from howsure.embeddings.point import Point


def point_estimates(embedding: Embedding) -> Embedding:
    """The same items as points at their places, draw by draw: what is left when nobody says how sure they are.

    Distances between beliefs grow with doubt, so firm items are near to everything. Distances between places do not.

    >>> import torch
    >>> from howsure import VonMisesFisher
    >>> point_estimates(VonMisesFisher(torch.tensor([[0.6, 0.8]]), torch.tensor([2.0])))
    Point(location=tensor([[0.6000, 0.8000]]))
    """
    points = [Point(draw.point_estimate) for draw in embedding.by_draw()]
    return points[0] if len(points) == 1 else Draws.stack(points)
