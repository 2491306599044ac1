"""Variance through the tangent of a network with a Gaussian over its weights: exact to first order.

    Var z_i = Σ slope^T Cov slope,        slope = ∂z_i/∂w of one picture, summed over weights w

One backward pass a dimension serves all pictures of a batch: the slope of a layer's weight is made from what goes into
the layer and from the gradient at what comes out. That gradient belongs to the edge of the graph, not to the tensor,
which an activation in place rewrites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from howsure.errors import InputError
from howsure.posteriors.laplace.covariance import ParameterCovariance

Squared = Callable[[Tensor], Tensor]  # the gradient at an output, (N, ...), to slope^T Cov slope, (N,)


class UnknownOperationError(InputError):
    """A network uses its weights in an operation whose variance is not known."""


class TangentRecorder(TorchFunctionMode):
    """Records each use of a parameter that has a covariance, while a network in eval computes.

    `covariances` are by the id of the parameter. `centres`, by id too, are subtracted from the inputs of a linear
    layer.

    >>> layer, x = torch.nn.Linear(2, 1), torch.tensor([[1.0, 2.0]])
    >>> from howsure.posteriors.laplace.covariance import DiagonalCovariance
    >>> with TangentRecorder({id(layer.weight): DiagonalCovariance(torch.tensor([[1.0, 0.5]]))}) as recorder:
    ...     z = layer(x)
    >>> recorder.variance(z)
    tensor([[3.]])
    """

    def __init__(self, covariances: Mapping[int, ParameterCovariance], centres: Mapping[int, Tensor] | None = None):
        super().__init__()
        self.covariances, self.centres = covariances, centres or {}
        self.found: list[tuple[GradientEdge, Squared]] = []
        self.used: set[int] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        used = {id(part) for part in (*args, *kwargs.values()) if id(part) in self.covariances}
        if used and isinstance(out, Tensor):
            name = function.__name__
            if name not in RULES or used & self.used:
                raise _unknown(f"{name}, a second use of a weight" if used & self.used else name)
            self.used |= used
            edge = get_gradient_edge(out)  # now: what comes next may rewrite the tensor
            self.found += [(edge, squared) for squared in RULES[name](self, *args, **kwargs)]
        return out

    def variance(self, z: Tensor, axes: Tensor | None = None) -> Tensor:
        """Of z (N, D), which the network has computed meanwhile, or along `axes` (D, N, D); spends the graph."""
        if axes is None:
            axes = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)[:, None].expand(-1, len(z), -1)
        edges = [edge for edge, _ in self.found]
        total = torch.zeros_like(z, requires_grad=False)
        for number, axis in enumerate(axes):
            gradients = torch.autograd.grad(z, edges, axis, retain_graph=number + 1 < len(axes))
            with torch.no_grad():
                for (_, squared), gradient in zip(self.found, gradients, strict=True):
                    total[:, number] += squared(gradient)
        return total

    def slopes(self, parameter: Tensor | None, make: Callable[[Tensor], Tensor]) -> list[Squared]:
        """What a parameter adds, if it has a covariance; `make` gives its slopes (N, ...)."""
        if id(parameter) not in self.covariances:
            return []
        return [lambda gradient: self.covariances[id(parameter)].squared(make(gradient))]

    def products(self, weight: Tensor, right: Callable[[], Tensor], left: Callable[[Tensor], Tensor]) -> list[Squared]:
        """What a matrix adds whose slopes are Σ_t left_t ⊗ right_t, (N, T, O) and (N, T, I)."""
        if id(weight) not in self.covariances:
            return []
        covariance, inputs = self.covariances[id(weight)], right()
        return [lambda gradient: covariance.squared_product(left(gradient), inputs)]


def _linear(recorder: TangentRecorder, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> list[Squared]:
    def right() -> Tensor:
        return (x.detach() - recorder.centres.get(id(weight), 0)).reshape(len(x), -1, x.shape[-1])

    def left(gradient: Tensor) -> Tensor:
        return gradient.reshape(len(x), -1, gradient.shape[-1])

    return recorder.products(weight, right, left) + recorder.slopes(bias, lambda gradient: left(gradient).sum(1))


def _conv2d(
    recorder: TangentRecorder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> list[Squared]:
    if groups > 1 or isinstance(padding, str):
        raise _unknown("conv2d in groups, or with padding by name")

    def right() -> Tensor:
        patches = F.unfold(x.detach(), weight.shape[2:], dilation=dilation, padding=padding, stride=stride)
        return patches.transpose(1, 2)  # (N, T, I·kh·kw), T positions

    def left(gradient: Tensor) -> Tensor:
        return gradient.flatten(2).transpose(1, 2)

    return recorder.products(weight, right, left) + recorder.slopes(bias, lambda gradient: gradient.sum((2, 3)))


def _batch_norm(
    recorder: TangentRecorder,
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> list[Squared]:
    if training or running_mean is None:
        raise InputError("batch norm", expected="fixed statistics", got="those of the batch", fix="call eval() first")
    plain = F.batch_norm(x.detach(), running_mean, running_var, eps=eps)

    def summed(values: Tensor) -> Tensor:
        return values.reshape(*values.shape[:2], -1).sum(2)

    return recorder.slopes(weight, lambda gradient: summed(gradient * plain)) + recorder.slopes(bias, summed)


def _layer_norm(
    recorder: TangentRecorder,
    x: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> list[Squared]:
    plain = F.layer_norm(x.detach(), shape, eps=eps)

    def summed(values: Tensor) -> Tensor:
        return values.reshape(len(x), -1, *shape).sum(1)

    return recorder.slopes(weight, lambda gradient: summed(gradient * plain)) + recorder.slopes(bias, summed)


def _prelu(recorder: TangentRecorder, x: Tensor, weight: Tensor) -> list[Squared]:
    below = x.detach().clamp_max(0)

    def slope(gradient: Tensor) -> Tensor:
        channels = (gradient * below).reshape(*below.shape[:2], -1).sum(2)
        return channels if len(weight) > 1 else channels.sum(1, keepdim=True)

    return recorder.slopes(weight, slope)


def _unknown(name: str) -> UnknownOperationError:
    return UnknownOperationError(
        "network",
        expected=f"weights in {', '.join(RULES)}, each used once",
        got=name,
        fix="use joint draws of the weights: laplace.drawn(embedder, 16)",
    )


RULES: dict[str, Callable[..., list[Squared]]] = {
    "linear": _linear,
    "conv2d": _conv2d,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "prelu": _prelu,
}
