"""Where identities lie before any picture of them is seen, and what that makes of a picture.

Identities t ~ N(centre, between), and a picture of one of them has its mean at m ~ N(t, v) with its own variance v.
Then the evidence that two pictures show one identity is exact, and rests on the *shrunk* moments of one of them:

    m~ = centre + B/(B + v) (m - centre),    v~ = B v/(B + v)

An unsure picture says little, so its shrunk mean is near the centre and its shrunk variance near B.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from howsure.compare import log_mean_over_draws, mutual_likelihood_of_draws
from howsure.embeddings import Draws, Embedding, Gaussian
from howsure.errors import CalibrationError, InputError

__all__ = ["Prior", "log_likelihood_ratio"]

Labels = Sequence[object] | np.ndarray | Tensor

# Variances between identities are at least this share of the scatter of their means. Embeddings that claim more
# variance than there is scatter would leave nothing.
FLOOR = 0.01


@dataclass(frozen=True, eq=False)
class Prior:
    """Identities ~ N(centre, diag(between)): `centre` (D,), and `between`, the variances, (D,) or one for all, (1,).

    >>> prior = Prior(torch.zeros(2), torch.ones(1))
    >>> prior.shrink(Gaussian(torch.tensor([[4.0, 0.0]]), torch.ones(1, 1)))
    Gaussian(location=tensor([[2., 0.]]), scale=tensor([[0.7071, 0.7071]]))
    """

    centre: Tensor
    between: Tensor

    def __post_init__(self) -> None:
        for name in ("centre", "between"):
            object.__setattr__(self, name, torch.as_tensor(getattr(self, name)).detach().to("cpu", torch.float64))
        shapes = f"{tuple(self.centre.shape)} and {tuple(self.between.shape)}"
        if self.centre.ndim != 1 or not self.dim or self.between.shape not in (self.centre.shape, (1,)):
            raise InputError("prior", expected="a centre (D,) and variances between (D,) or (1,)", got=shapes)
        if not (self.centre.isfinite().all() and self.between.isfinite().all() and (self.between > 0).all()):
            raise InputError("prior", expected="a finite centre and positive variances", got="NaN, infinity or 0")

    @classmethod
    def fit(cls, embedding: Embedding, labels: Labels, *, per_dimension: bool = True) -> Prior:
        """From embeddings of pictures of known identities, by empirical Bayes.

        The means of identities scatter by `between` and by what their pictures leave open, the mean variance of a
        picture over their number. The rest is `between`. One variance for all dimensions, `per_dimension=False`, keeps
        the search of a gallery with one variance an item exact at the cost of a plain scan.
        """
        codes = _codes(labels, len(embedding))
        fits = [_moments(draw.checked(), codes) for draw in embedding.to("cpu", torch.float64).detach().by_draw()]
        centre, scatter, noise = (torch.stack(part).mean(0) for part in zip(*fits, strict=True))
        if not per_dimension:
            scatter, noise = scatter.mean(0, keepdim=True), noise.mean(0, keepdim=True)
        if not scatter.sum() > 0:
            raise CalibrationError("identities", expected="different means", got="all equal", fix="look at the model")
        least = FLOOR * torch.maximum(scatter, FLOOR * scatter.mean())  # a dimension may be without scatter
        return cls(centre, torch.maximum(scatter - noise, least))

    @property
    def dim(self) -> int:
        """D."""
        return len(self.centre)

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """`centre` and `between` for numpy."""
        return self.centre.numpy(), self.between.numpy()

    @property
    def version(self) -> str:
        """A fingerprint of the numbers: equal if and only if the prior is."""
        numbers = b"".join(part.numpy().astype("<f8").tobytes() for part in (self.centre, self.between))
        return hashlib.sha256(numbers).hexdigest()[:16]

    def shrink(self, embedding: Embedding) -> Embedding:
        """The posterior over the identities of these items: Gaussians, or draws of Gaussians."""
        self.require(embedding.dim)
        parts = [self._shrunk(draw) for draw in embedding.by_draw()]
        return parts[0] if len(parts) == 1 else Draws.stack(parts)

    def _shrunk(self, draw: Embedding) -> Gaussian:
        centre, between = (part.to(draw.device, draw.dtype) for part in (self.centre, self.between))
        weight = between / (between + draw.variance)
        return Gaussian(centre + weight * (draw.mean - centre), (weight * draw.variance).sqrt())

    def log_density(self, query: Embedding) -> Tensor:
        """log N(mean; centre, between + variance), (N,): of a picture whose identity nobody knows. Without draws."""
        centre, between = (part.to(query.device, query.dtype) for part in (self.centre, self.between))
        total = between + query.variance
        return -0.5 * ((query.mean - centre).square() / total + total.log() + math.log(2 * math.pi)).sum(-1)

    def require(self, dim: int) -> None:
        """Refuse embeddings of another dimension."""
        if dim != self.dim:
            raise InputError(
                "dimension of the prior", expected=f"{dim}, as the embeddings", got=str(self.dim), fix="fit it on such"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, without loss."""
        return {"centre": self.centre.tolist(), "between": self.between.tolist()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Prior:
        """The prior that `to_json` wrote."""
        return cls(*(torch.tensor(stored[name], dtype=torch.float64) for name in ("centre", "between")))


def log_likelihood_ratio(query: Embedding, gallery: Embedding, prior: Prior, *, paired: bool = False) -> Tensor:
    """log p(query | same identity as the item) / p(query | any identity), (Q, G) or (N,): large = match.

        log N(q; m~, v_q + v~) - log N(q; centre, B + v_q)

    Symmetric in its two sides. Embeddings that are not Gaussian count by their moments. Over draws, it is the
    mean of the ratios. A model's variances are never quite right, so this is evidence to rank by; a `Matcher` fitted on
    -log_likelihood_ratio of held-out pairs makes it a probability.

    >>> prior, query = Prior(torch.zeros(1), torch.ones(1)), Gaussian(torch.tensor([[1.0]]), torch.tensor([[0.5]]))
    >>> gallery = Gaussian(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([[0.5], [9.0], [0.5]]))
    >>> log_likelihood_ratio(query, gallery, prior)
    tensor([[ 0.8664,  0.0108, -2.6892]])
    """
    prior.require(gallery.dim)

    def one_draw(a: Embedding, b: Embedding) -> Tensor:
        alone = prior.log_density(a)
        same = mutual_likelihood_of_draws(a, prior.shrink(b), paired=paired)
        return same - (alone if paired else alone[:, None])

    return log_mean_over_draws(one_draw, query, gallery, paired=paired)


def _codes(labels: Labels, count: int) -> Tensor:
    if len(labels) != count:
        raise InputError("labels", expected=f"{count}, one for each item", got=str(len(labels)))
    values = labels.tolist() if isinstance(labels, (Tensor, np.ndarray)) else labels
    # Without a label a picture stands alone; a tuple keeps its number apart from labels.
    names = [(True, number) if label is None else (False, label) for number, label in enumerate(values)]
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    if len(codes) < 2:
        raise CalibrationError("labels", expected="two identities or more", got=str(len(codes)), fix="add others")
    return torch.tensor([codes[name] for name in names])


def _moments(draw: Embedding, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The centre of the means of identities, their scatter, and the part of it that their pictures leave open."""
    count = torch.bincount(codes).double()[:, None]
    means, variances = (
        torch.zeros(len(count), draw.dim, dtype=torch.float64).index_add_(0, codes, part) / count
        for part in (draw.mean, draw.variance)
    )
    return means.mean(0), means.var(0), (variances / count).mean(0)
