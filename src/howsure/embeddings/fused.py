"""Several beliefs about one thing, as one."""

from __future__ import annotations

import torch
from torch import Tensor

from howsure.embeddings.base import Embedding
from howsure.embeddings.draws import Draws
from howsure.embeddings.gaussian import Gaussian
from howsure.errors import InputError


def fused(embedding: Embedding, groups: Tensor) -> Embedding:
    """One belief for each group 0, 1, ...: the product of the beliefs of its items, `groups` (N,) of integers.

    Gaussians fuse by their precision, 1/v = Σ 1/v_i and m = v Σ m_i/v_i, so that the unsure ones count less; other
    families by their moments. On the sphere, k μ = Σ k_i μ_i. Points fuse to their mean, draws draw by draw. A product
    takes pictures to err independently: ten frames of one second say less than it makes of them.

    >>> from howsure import Gaussian
    >>> pictures = Gaussian(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [0.5]]))
    >>> fused(pictures, torch.tensor([0, 0]))
    Gaussian(location=tensor([[2.4000]]), scale=tensor([[0.4472]]))
    """
    if groups.shape != (len(embedding),) or groups.is_floating_point() or (len(groups) and groups.min() < 0):
        raise InputError("groups", expected=f"{len(embedding)} numbers from 0 on", got=f"{tuple(groups.shape)}")
    if len(groups) and not (torch.bincount(groups) > 0).all():
        raise InputError("groups", expected="all numbers up to the largest", got="a gap", fix="count them from 0 on")
    draws = embedding.by_draw()
    parts = [_fused(draw, groups.to(draw.device)) for draw in draws]
    return parts[0] if len(draws) == 1 else Draws.stack(parts)


def _fused(draw: Embedding, groups: Tensor) -> Embedding:
    tensors, variance = draw.tensors(), draw.variance
    if "concentration" in tensors:
        total = _sums(tensors["concentration"][:, None] * tensors["direction"], groups)
        length = total.norm(dim=1)
        first = torch.zeros_like(total)
        first[:, 0] = 1  # where nothing is known, one direction is as good as another
        direction = torch.where(length[:, None] > 0, total / length[:, None], first)
        return draw.rebuild({"direction": direction, "concentration": length})
    if (variance == 0).all():
        return draw.rebuild({name: _sums(t, groups) / _sums(torch.ones_like(t), groups) for name, t in tensors.items()})
    if not (variance > 0).all():
        raise InputError("beliefs to fuse", expected="some variance in every item, or in none", got="0 in some")
    precision = _sums(1 / variance, groups)
    return Gaussian(_sums(draw.mean / variance, groups) / precision, precision.rsqrt())


def _sums(values: Tensor, groups: Tensor) -> Tensor:
    count = int(groups.max()) + 1 if len(groups) else 0
    return values.new_zeros(count, *values.shape[1:]).index_add_(0, groups, values)
