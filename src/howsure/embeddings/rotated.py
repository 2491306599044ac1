"""Beliefs in other axes."""

from __future__ import annotations

from torch import Tensor

from howsure.embeddings.base import Embedding

PLACES = ("location", "direction")


def rotated(embedding: Embedding, rotation: Tensor) -> Embedding:
    """The same beliefs after z → z R, R orthogonal (D, D): distances and uncertainties stay as they are.

    A belief with a scale for each dimension keeps the variances along the new axes, diag(R^T diag(scale²) R); how the
    new coordinates vary together is lost, as such a belief has no place for it.

    >>> import torch
    >>> from howsure import Point
    >>> rotated(Point(torch.tensor([[1.0, 2.0]])), torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    Point(location=tensor([[-2.,  1.]]))
    """

    def turned(name: str, tensor: Tensor) -> Tensor:
        if name in PLACES:
            return tensor @ rotation
        if name == "scale" and tensor.shape[-1] > 1:  # one scale for all dimensions looks the same from every side
            return (tensor.square() @ rotation.square()).sqrt()
        return tensor

    return embedding.rebuild({name: turned(name, tensor) for name, tensor in embedding.tensors().items()})
