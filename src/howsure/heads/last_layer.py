"""A head whose last linear layer is not known exactly: a Gaussian belief about its weights becomes one about places.

Pairs see differences: what is uncertain about z is its difference from the place of the mean features, φ - centre. So
the bias is taken as it is, and a common shift of all pictures is no doubt about any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Draws, Embedding, Gaussian, NovelGaussian, Point
from howsure.errors import InputError
from howsure.heads.ambiguity import Ambiguity
from howsure.heads.posterior import LaplaceHead

__all__ = [
    "DiagonalWeights",
    "LastLayerLaplace",
    "SharedWeights",
    "WeightPosterior",
    "blank_laplace",
    "linear_layer",
    "on_sphere",
    "through",
]

SHORTEST = 1e-12  # as torch.nn.functional.normalize has it


class WeightPosterior(nn.Module, ABC):
    """Deviations of a (D, M) weight matrix from its estimate: a Gaussian of mean 0."""

    centre: Tensor  # (M,)

    def __init__(self, centre: Tensor):
        super().__init__()
        self.register_buffer("centre", centre)

    @abstractmethod
    def variance(self, features: Tensor) -> Tensor:
        """Of z, from (N, M) features: (N, D), or (N, 1) if it is the same in every dimension."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What `blank_laplace` needs beside the tensors."""

    @abstractmethod
    def deviations(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        """(S, D, M) joint draws."""


class SharedWeights(WeightPosterior):
    """Full covariance over the features, the same for each of the D rows of the matrix.

    `axes` (R, M) are orthonormal, with variances `along` (R,); every direction across them has the variance `across`.

        Var z_i = Σ_j along_j (a_j·g)² + across |g - Σ_j a_j (a_j·g)|²,        g = φ - centre
    """

    axes: Tensor
    along: Tensor
    across: Tensor

    CANCELS = 1e4

    def __init__(self, centre: Tensor, *, axes: Tensor, along: Tensor, across: Tensor, careful: bool | None = None):
        super().__init__(centre)
        # A difference of squares loses some 1e-7 of the length. That matters for features nearly in the span where
        # directions across are much wider; then the remainder itself is made, at twice the cost.
        self.careful = bool(across > self.CANCELS * along.min()) if careful is None else careful
        self.register_buffer("axes", axes)
        self.register_buffer("along", along)
        self.register_buffer("across", across)
        self._known: tuple[tuple[int, int], tuple[float, Tensor]] | None = None

    def variance(self, features: Tensor) -> Tensor:
        axes = self.axes
        gap = features - self.centre
        parts = F.linear(gap, axes)
        squares = parts * parts
        if axes.shape[0] == axes.shape[1]:
            return torch.mv(squares, self.along).unsqueeze(1)
        across, beyond = self._apart()
        if self.careful:
            gap, beyond = torch.addmm(gap, parts, axes, alpha=-1), self.along
        return torch.addmv(torch.linalg.vecdot(gap, gap), squares, beyond, beta=across).unsqueeze(1)

    def _apart(self) -> tuple[float, Tensor]:
        """`across`, and how much more `along` is: |g|² has counted it once; CANCELS keeps the sum positive."""
        along, across = self.along, self.across
        now = along.data_ptr(), along._version + across._version  # loading and training write into them
        if self._known is None or self._known[0] != now:
            self._known = now, (float(across), along - across)
        return self._known[1]

    def describe(self) -> dict[str, Any]:
        return {"axes": len(self.axes), "careful": self.careful}

    def deviations(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        noise = torch.randn(draws * dim, len(self.centre), generator=generator, dtype=self.centre.dtype)
        noise = noise.to(self.centre.device)
        scale = self.across.sqrt()
        drawn = scale * noise + (F.linear(noise, self.axes) * (self.along.sqrt() - scale)) @ self.axes
        return drawn.view(draws, dim, -1)


class DiagonalWeights(WeightPosterior):
    """Every weight on its own, with variance v (D, M): Var z_i = Σ_j v_ij g_j², g = φ - centre."""

    spread: Tensor

    def __init__(self, centre: Tensor, *, spread: Tensor):
        super().__init__(centre)
        self.register_buffer("spread", spread)

    def variance(self, features: Tensor) -> Tensor:
        return F.linear((features - self.centre).square(), self.spread)

    def describe(self) -> dict[str, Any]:
        return {"axes": None}

    def deviations(self, draws: int, dim: int, generator: torch.Generator) -> Tensor:
        noise = torch.randn(draws, *self.spread.shape, generator=generator, dtype=self.centre.dtype)
        return noise.to(self.centre.device) * self.spread.sqrt()


class LastLayerLaplace(LaplaceHead):
    """A head, and how well its layer `layer` is known; gives a `Gaussian`, or with `draws` S joint `Draws`.

    What the wrapped head says about the picture itself, a scale of its own, is added. On the sphere, u = z/|z|, the
    delta method brings the covariance of z along: Cov u = P Cov z P / |z|², P = I - u u^T. With `usual`, the sorted raw
    variances (n,) of pictures it was not fitted on, the Gaussian also says how typical a picture is; with `ambiguity`,
    how wide it is where it lies.
    """

    kind: ClassVar[str] = "laplace"

    def __init__(
        self,
        head: nn.Module,
        weights: WeightPosterior,
        *,
        layer: str,
        normalised: bool,
        usual: Tensor | None = None,
        ambiguity: Ambiguity | None = None,
        draws: int = 0,
        seed: int = 0,
    ):
        super().__init__(usual)
        self.head, self.weights, self.ambiguity = head, weights, ambiguity
        self.layer, self.normalised, self.draws, self.seed = layer, normalised, draws, seed
        self.dim = linear_layer(head, layer).out_features
        self._stacked: tuple[tuple[Any, ...], Tensor, Tensor] | None = None
        self._direct = self._bare = False

    def forward(self, features: Tensor) -> Embedding:
        """(N, M) features to beliefs."""
        if self.draws:
            return self._drawn(features)
        place, own, inputs, z = self._through(features)
        raw = self.weights.variance(inputs)
        variance = on_sphere(raw, z) if self.normalised else raw
        if own is not None:
            variance = variance + own.square()
        if self.ambiguity is not None:
            variance = self.ambiguity(place, self._total(variance))
        scale = variance.sqrt()
        if self.usual is None:
            return Gaussian(place, scale)
        return NovelGaussian(place, scale, self.typicality(self._total(raw)))

    def raw_variance(self, features: Tensor) -> Tensor:
        """Σ_i Var z_i before any normalisation, (N,): how far the features are from what fixed the weights."""
        direct = self._direct and not self.training
        inputs = features if direct else through(self.head, self.layer, features)[1]
        return self._total(self.weights.variance(inputs))

    def at_estimate(self, features: Tensor) -> Embedding:
        belief: Embedding = self.head(features)
        return belief

    def model_part(self, belief: Embedding, features: Tensor | None = None) -> Tensor | None:
        """As everywhere, but for a learned width: it is of picture and model together, and does not come apart."""
        return super().model_part(belief, features) if self.ambiguity is None or self.draws else None

    def _through(self, features: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """Where the head puts pictures, its own scale if it has one, and what goes into and comes out of the layer.

        A layer seen to read the features themselves is asked once more, which is cheaper than a hook; and a head seen
        to do no more than that layer is not asked again.
        """
        if self._direct and not self.training:  # in training a dropout may come between
            z = self._linear()(features)
            if self._is_bare():
                return self._at(z), None, features, z
            belief, inputs = self.head(features), features
        else:
            belief, inputs, z = through(self.head, self.layer, features)
            self._direct = not self.training and inputs is features
            self._bare = self._direct and list(belief.tensors()) == ["location"] and belief.mean.equal(self._at(z))
        return belief.mean, belief.tensors().get("scale"), inputs, z

    def _is_bare(self) -> bool:
        # A hook wants to see the head at work.
        return self._bare and not self.training and not self.head._forward_hooks and not self.head._forward_pre_hooks

    def _linear(self) -> nn.Module:
        return self.head.get_submodule(self.layer)

    def _at(self, z: Tensor) -> Tensor:
        return z / torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp_min(SHORTEST) if self.normalised else z

    def _total(self, variance: Tensor) -> Tensor:
        return variance.squeeze(1) * float(self.dim) if variance.shape[1] == 1 else variance.sum(-1)

    def describe(self) -> dict[str, Any]:
        """What `blank_laplace` needs to build this again, apart from the tensors and the wrapped head."""
        return {
            "weights": self.weights.describe(),
            "layer": self.layer,
            "normalised": self.normalised,
            "usual": None if self.usual is None else len(self.usual),
            "ambiguity": self.ambiguity is not None,
            "draws": self.draws,
            "seed": self.seed,
        }

    def again(self, **changes: Any) -> LastLayerLaplace:
        """The same posterior with other `usual`, `ambiguity`, `draws` or `seed`."""
        same: dict[str, Any] = {"layer": self.layer, "normalised": self.normalised, "ambiguity": self.ambiguity}
        same |= {"usual": self.usual, "draws": self.draws, "seed": self.seed}
        return LastLayerLaplace(self.head, self.weights, **(same | changes))

    def _drawn(self, features: Tensor) -> Draws:
        """z + δ_s (φ - centre) of all draws δ_s, in one product.

        A bare linear layer that nobody differentiates is drawn itself: (W + δ_s) φ + b - δ_s centre.
        """
        layer = self._linear()
        if self._is_bare() and type(layer) is nn.Linear and not torch.is_grad_enabled():
            own, weight, bias = None, *self._networks(layer)
            places = torch.addmm(bias, features, weight).view(-1, self.draws, self.dim)
        else:
            _, own, inputs, z = self._through(features)
            weight, bias = self._networks(None)
            places = torch.addmm(bias, inputs, weight).view(-1, self.draws, self.dim) + z[:, None]
        if self.normalised:
            places = self._at(places)
        if own is None:
            return Draws(Point(places))
        return Draws(Gaussian(places, own[:, None].expand(-1, self.draws, -1)))

    @torch.no_grad()
    def _networks(self, layer: nn.Linear | None) -> tuple[Tensor, Tensor]:
        """Weights (M, S·D) and biases (S·D,) of all draws: of the layer, or of what they add to it."""
        read = [*self.weights.buffers(), *([] if layer is None else layer.parameters())]
        now = tuple((tensor.data_ptr(), tensor._version) for tensor in read)  # loading and training write into them
        if self._stacked is None or self._stacked[0] != now:
            generator = torch.Generator().manual_seed(self.seed)  # on the CPU: the same draws on every device
            weight = self.weights.deviations(self.draws, self.dim, generator)
            bias = -(weight @ self.weights.centre)
            if layer is not None:
                weight, bias = weight + layer.weight, bias if layer.bias is None else bias + layer.bias
            self._stacked = now, weight.flatten(0, 1).T.contiguous(), bias.flatten()
        return self._stacked[1:]


def through(head: nn.Module, layer: str, features: Tensor) -> tuple[Embedding, Tensor, Tensor]:
    """The belief of a head, and what went into and came out of one of its linear layers on the way."""
    found: list[tuple[Tensor, Tensor]] = []
    hook = linear_layer(head, layer).register_forward_hook(lambda module, args, out: found.append((args[0], out)))
    try:
        belief = head(features)
    finally:
        hook.remove()
    inputs, z = found[0]
    return belief, inputs, z


def linear_layer(head: nn.Module, name: str) -> nn.Linear:
    """The linear layer of that name."""
    layer = dict(head.named_modules()).get(name)
    if not isinstance(layer, nn.Linear):
        known = ", ".join(found for found, module in head.named_modules() if isinstance(module, nn.Linear))
        raise InputError(
            "layer", expected=f"a linear layer of the head: {known or 'it has none'}", got=repr(name), fix="name one"
        )
    return layer


def blank_laplace(head: nn.Module, described: dict[str, Any]) -> LastLayerLaplace:
    """The module that `describe` tells about, around a head, with tensors still to be loaded."""
    said = dict(described)
    form = said.pop("weights")
    layer = linear_layer(head, said["layer"])
    empty, width = layer.weight.new_zeros, layer.in_features
    weights: WeightPosterior
    if form["axes"] is None:
        weights = DiagonalWeights(empty(width), spread=empty(layer.out_features, width))
    else:
        axes, along = empty(form["axes"], width), empty(form["axes"])
        weights = SharedWeights(empty(width), axes=axes, along=along, across=empty(()), careful=form["careful"])
    count = said.pop("usual")
    said["ambiguity"] = Ambiguity(layer.out_features).to(layer.weight) if said.get("ambiguity") else None
    return LastLayerLaplace(head, weights, usual=None if count is None else empty(count), **said)


def on_sphere(variance: Tensor, z: Tensor) -> Tensor:
    """The delta method, for (N, D) or (N, 1) variances; the total is exact to first order."""
    squared = torch.linalg.vecdot(z, z).clamp_min(torch.finfo(z.dtype).tiny).unsqueeze(-1)
    if variance.shape[-1] == 1:
        return torch.sub(variance, variance, alpha=1 / z.shape[-1]) / squared  # s²(1 - u_i²), its mean over i
    along = z.square() / squared  # u_i²
    return (variance * (1 - 2 * along) + along * (along * variance).sum(-1, keepdim=True)) / squared
