"""One standard deviation of every embedding, drawn in a plane: an ellipse a component, an arc on the circle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from howsure.embeddings import Embedding
from howsure.plots.figures import Plane

__all__ = ["Outlines", "map_plane", "outlines"]

POINTS = 36  # of an outline; a multiple of four, so that an upright ellipse has its four ends among them
FAN = 0.5  # how far outside the circle the arc is drawn that goes all around


@dataclass(frozen=True, eq=False)
class Outlines:
    """M closed or open curves around embeddings; a mixture has several."""

    items: np.ndarray  # (M,) whose embedding
    weights: np.ndarray  # (M,) of the component, 1 for all but mixtures
    centres: np.ndarray  # (M, 2)
    curves: np.ndarray  # (M, P, 2)
    closed: bool

    @property
    def sizes(self) -> np.ndarray:
        """(M,) root mean square distance of a curve from its centre."""
        return np.sqrt(np.square(self.curves - self.centres[:, None]).sum(-1).mean(-1))


def map_plane(embedding: Embedding) -> Plane:
    """The embedding's own plane where it has two dimensions, else its first two principal axes."""
    return Plane(np.zeros(2), np.eye(2)) if embedding.dim == 2 else Plane.fit(embedding)


def outlines(embedding: Embedding, plane: Plane) -> Outlines:
    """The points one standard deviation from the mean in the plane.

    An ellipse {m + C^½ u : |u| = 1} for each component, m and C its mean and covariance in the plane. A von
    Mises-Fisher embedding of two dimensions lies on the unit circle: it gets an arc that reaches one circular standard
    deviation, (-2 log A)^½, to either side of its direction, and at most around. The farther it reaches, the farther
    outside the circle it is drawn, or arcs would hide each other.

    >>> from howsure import Gaussian
    >>> embedding = Gaussian(torch.zeros(1, 2), torch.tensor([[3.0, 1.0]]))
    >>> np.ptp(outlines(embedding, map_plane(embedding)).curves, axis=1)
    array([[6., 2.]])
    """
    if (reach := embedding.circular_deviation) is not None:
        return _arcs(embedding.to(dtype=torch.float64), reach.detach().numpy())
    weights, means, covariances = _moments(embedding, plane)
    items = np.repeat(np.arange(len(embedding)), weights.shape[1])
    centres = means.reshape(-1, 2)
    turn = np.linspace(0, 2 * np.pi, POINTS, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], -1)  # (P, 2)
    curves = centres[:, None] + circle @ _root(covariances.reshape(-1, 2, 2))
    return Outlines(items, weights.reshape(-1), centres, curves, closed=True)


def _moments(embedding: Embedding, plane: Plane) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (N, K), means (N, K, 2) and covariances (N, K, 2, 2) in the plane; several draws become one."""
    draws = [_one_draw(draw, plane) for draw in embedding.by_draw()]
    if len(draws) == 1:
        return draws[0]
    whole = [_total(*draw) for draw in draws]
    means, covariances = np.stack([m for m, _ in whole], 1), np.stack([c for _, c in whole], 1)
    mean, covariance = _total(np.full(means.shape[:2], 1 / len(draws)), means, covariances)
    return np.ones((len(mean), 1)), mean[:, None], covariance[:, None]


def _one_draw(embedding: Embedding, plane: Plane) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    log_weights, means, _ = (part.detach().double().numpy() for part in embedding.components())
    return np.exp(log_weights), (means - plane.centre) @ plane.axes.T, embedding.covariances(plane.axes)


def _arcs(embedding: Embedding, reach: np.ndarray) -> Outlines:
    direction, mean = (points.detach().numpy() for points in (embedding.point_estimate, embedding.mean))
    angle = np.arctan2(direction[:, 1], direction[:, 0])
    turn = angle[:, None] + reach[:, None] * np.linspace(-1, 1, POINTS + 1)  # (N, P), the direction in the middle
    curves = (1 + FAN * reach / np.pi)[:, None, None] * np.stack([np.cos(turn), np.sin(turn)], -1)
    return Outlines(np.arange(len(embedding)), np.ones(len(embedding)), mean, curves, closed=False)


def _total(weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (N, 2) and covariance (N, 2, 2) of a mixture."""
    mean = np.einsum("nk,nkp->np", weights, means)
    gaps = means - mean[:, None]
    moments = covariances + gaps[..., :, None] * gaps[..., None, :]
    return mean, np.einsum("nk,nkpq->npq", weights, moments)


def _root(covariances: np.ndarray) -> np.ndarray:
    """The symmetric square root of each matrix, (M, 2, 2)."""
    values, vectors = np.linalg.eigh(covariances)
    return (vectors * np.sqrt(values.clip(0))[:, None]) @ vectors.transpose(0, 2, 1)
