"""Draws that share one doubt."""

from __future__ import annotations

from howsure.embeddings.base import Embedding
from howsure.embeddings.draws import Draws
from howsure.embeddings.gaussian import Gaussian


def pooled(embedding: Embedding) -> Embedding:
    """The same draws where they are, each as unsure as all of them together, alike in every direction.

    A member of an ensemble may have no doubt of its own, and what a few members disagree about along one axis is mostly
    chance; over all axes it says how far a picture is in doubt. A belief of one draw stays as it is.

    >>> import torch
    >>> from howsure import Point
    >>> pooled(Draws.stack([Point(torch.tensor([[0.0, 1.0]])), Point(torch.tensor([[2.0, 1.0]]))])).by_draw()[0]
    Gaussian(location=tensor([[0., 1.]]), scale=tensor([[0.7071]]))
    """
    draws = embedding.by_draw()
    if len(draws) == 1:
        return embedding
    scale = (embedding.uncertainty / embedding.dim).sqrt()[:, None]
    return Draws.stack([Gaussian(draw.mean, scale) for draw in draws])
