"""The one noun of the library: items in the embedding space, with uncertainty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from howsure.errors import InputError

FAMILIES: dict[str, type[Embedding]] = {}


def axes(count: int) -> Any:
    """Declare a tensor field of a family by the number of axes it has after the item axes."""
    return field(metadata={"axes": count})


@dataclass(frozen=True, eq=False)
class Embedding(ABC):
    """The distributions of N items in D dimensions. Every field is a tensor whose first axis is the item.

    A family supplies three duties, `mean`, `variance` and `sample`, and `rotated` if its fields turn with the axes;
    everything else is derived. Inside `Draws` the fields carry a second item axis, the draw; nothing else ever does.
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        FAMILIES[cls.name] = cls

    def __post_init__(self) -> None:
        # A network makes one with every picture, so this is short where all is well.
        shapes, types = {}, set()
        for name, trailing in _axes_of(type(self)):
            tensor = getattr(self, name)
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                got = f"{tensor.dtype} tensor" if isinstance(tensor, Tensor) else type(tensor).__name__
                expected = "a floating-point torch tensor"
                raise InputError(f"{self.name} {name}", expected=expected, got=got, fix="convert it first")
            items = tensor.ndim - trailing
            if items not in (1, 2):
                raise InputError(
                    f"{self.name} {name}",
                    expected=f"{trailing + 1} axes, the item first",
                    got=f"shape {tuple(tensor.shape)}",
                    fix="one item still needs its item axis: x[None]",
                )
            shapes[name] = tensor.shape[:items]
            types.add((tensor.dtype, tensor.device))
        if len(set(shapes.values())) > 1:
            got = str({name: tuple(shape) for name, shape in shapes.items()})
            raise InputError(f"{self.name} fields", expected="the same items in every field", got=got)
        if len(types) > 1:
            raise InputError(
                f"{self.name} fields",
                expected="one dtype and one device",
                got=" and ".join(sorted(f"{dtype} on {device}" for dtype, device in types)),
                fix="use .to()",
            )

    # The three duties.

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """E[z], (N, D)."""

    @property
    @abstractmethod
    def variance(self) -> Tensor:
        """Var[z_i] per coordinate, population convention, (N, D)."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """(n, N, D); `sample[i]` is one joint draw for all N items."""

    # Derived.

    @property
    def uncertainty(self) -> Tensor:
        """E|z - mean|², (N,): large = unsure."""
        return self.variance.sum(-1)

    @property
    def point_estimate(self) -> Tensor:
        """The one point that stands for the item, (N, D): the mean, and on the sphere the direction."""
        return self.mean

    @property
    def confidence(self) -> Tensor | None:
        """(N,) in [0, 1], large = sure, where a family has such a number by its own definition; None elsewhere."""
        return None

    @property
    def novelty(self) -> Tensor | None:
        """(N,) in [0, 1], large = unlike anything the model has seen, where a family keeps it; None elsewhere."""
        return None

    @property
    def item_scale(self) -> Tensor | None:
        """The standard deviation of each item, (N, D) or (N, 1), where a family has one as a field; None elsewhere."""
        return None

    def rotated(self, rotation: Tensor) -> Self:
        """The same items after z → z R, R orthogonal (D, D): distances and uncertainties stay as they are.

        With a scale for each dimension, the variances along the new axes are kept, diag(R^T diag(scale²) R); how the
        new coordinates vary together is lost, as the family has no field for it.

        >>> from howsure import Point
        >>> Point(torch.tensor([[1.0, 2.0]])).rotated(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        Point(location=tensor([[-2.,  1.]]))
        """
        raise InputError("rotation", expected="a family with a method `rotated`", got=self.family)

    def by_draw(self) -> tuple[Embedding, ...]:
        """One embedding per draw of the weights: `(self,)` for every family except `Draws`."""
        return (self,)

    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """As Gaussians: log weights (N, K), means and variances (N, K, D); K = 1 for all but mixtures."""
        mean = self.mean
        return mean.new_zeros(*mean.shape[:-1], 1), mean[..., None, :], self.variance[..., None, :]

    def covariances(self, axes: np.ndarray) -> np.ndarray:
        """Of the components along axes (P, D), (N, K, P, P): coordinates are independent unless a family says else."""
        variances = self.components()[2].detach().double().numpy()
        covariances: np.ndarray = np.einsum("pd,nkd,qd->nkpq", axes, variances, axes)
        return covariances

    @property
    def circular_deviation(self) -> Tensor | None:
        """The circular standard deviation in radians, (N,), for a family on the unit circle; None elsewhere."""
        return None

    def fused(self, groups: Tensor) -> Embedding:
        """One embedding for each group 0, 1, ...: the product of its items' densities; `groups` are (N,) integers.

        Gaussians fuse by precision, 1/v = Σ 1/v_i and m = v Σ m_i/v_i, so that uncertain items count less; other
        families by their moments. On the sphere, k μ = Σ k_i μ_i. Points fuse to their mean, draws draw by draw. A
        product assumes independent errors: ten frames of one second say less than it makes of them.

        >>> from howsure import Gaussian
        >>> Gaussian(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [0.5]])).fused(torch.tensor([0, 0]))
        Gaussian(location=tensor([[2.4000]]), scale=tensor([[0.4472]]))
        """
        variance, gaussian = self.variance, FAMILIES["gaussian"]
        if (variance == 0).all():
            return self.map(lambda t: group_sums(t, groups) / group_sums(torch.ones_like(t), groups))
        if not (variance > 0).all():
            raise InputError("embeddings to fuse", expected="some variance in every item, or in none", got="0 in some")
        precision = group_sums(1 / variance, groups)
        mean = group_sums(self.mean / variance, groups) / precision
        return gaussian(location=mean, scale=precision.rsqrt())  # type: ignore[call-arg]

    @property
    def family(self) -> str:
        """The name under which `restore` finds this family."""
        return self.name

    def tensors(self) -> dict[str, Tensor]:
        """The fields by name."""
        return {name: getattr(self, name) for name, _ in _axes_of(type(self))}

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as numpy arrays, bit for bit; `restore(e.family, e.arrays())` gives `e` back."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in self.tensors().items()}

    def __len__(self) -> int:
        return next(iter(self.tensors().values())).shape[0]

    @property
    def dim(self) -> int:
        """D."""
        return self.mean.shape[-1]

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray | Tensor) -> Self:
        """Rows by position, slice, list or mask; a single position gives a batch of one."""
        if isinstance(index, (int, np.integer)):
            if not -len(self) <= index < len(self):
                raise IndexError(f"item {index} of an embedding of {len(self)}")
            index = [int(index) % len(self)]
        if isinstance(index, slice) and (index.step or 1) < 0:
            index = range(*index.indices(len(self)))  # torch takes no negative step
        if isinstance(index, slice):
            part = index
            return self.map(lambda tensor: tensor[part])
        # Copied, because torch takes no reversed and no read-only array.
        rows = (index if isinstance(index, Tensor) else torch.from_numpy(np.array(index))).to(self.device)
        if rows.numel() == 0 and rows.dtype != torch.bool:
            rows = rows.long()
        return self.map(lambda tensor: tensor[rows])

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same family with `function` applied to every field."""
        return self.rebuild({name: function(tensor) for name, tensor in self.tensors().items()})

    def rebuild(self, tensors: Mapping[str, Tensor]) -> Self:
        """The same family around other tensors."""
        return type(self)(**tensors)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same embedding on another device or in another precision."""
        return self.map(lambda tensor: tensor.to(device=device, dtype=dtype))

    def detach(self) -> Self:
        """The same embedding outside the autograd graph."""
        return self.map(Tensor.detach)

    @property
    def device(self) -> torch.device:
        """Where the fields live."""
        return next(iter(self.tensors().values())).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the fields."""
        return next(iter(self.tensors().values())).dtype

    def checked(self) -> Self:
        """The embedding itself if every value is finite; an error that names the first bad item otherwise."""
        for name, tensor in self.tensors().items():
            bad = ~torch.isfinite(tensor[..., None]).flatten(1).all(1)  # a field may have the item axis alone
            if bad.any():
                first = int(bad.nonzero()[0, 0])
                raise InputError(
                    f"{self.family} {name}",
                    expected="finite values",
                    got=f"NaN or infinity in {int(bad.sum())} of {len(self)} items, first item {first}",
                    fix="drop these items, or look at the network that made them",
                )
        return self


@cache
def _axes_of(family: type[Embedding]) -> tuple[tuple[str, int], ...]:
    return tuple((spec.name, spec.metadata["axes"]) for spec in fields(family))


def cat(parts: Sequence[Embedding]) -> Embedding:
    """Join embeddings of one family along the item axis."""
    if not parts:
        raise InputError("cat", expected="at least one embedding", got="none")
    shapes = {(part.family, *(tuple(t.shape[1:]) for t in part.tensors().values())) for part in parts}
    if len(shapes) > 1:
        raise InputError(
            "cat", expected="one family and one shape", got=" and ".join(map(str, sorted(shapes, key=str)))
        )
    rows = [part.tensors() for part in parts]
    return parts[0].rebuild({name: torch.cat([row[name] for row in rows]) for name in rows[0]})


def restore(family: str, arrays: Mapping[str, np.ndarray]) -> Embedding:
    """The embedding that `arrays()` wrote."""
    outer, _, inner = family.partition(":")
    if outer not in FAMILIES:
        raise InputError("family", expected=" or ".join(sorted(FAMILIES)), got=repr(family))
    if inner:
        wrap: Any = FAMILIES[outer]
        return wrap(restore(inner, arrays))
    names = [spec.name for spec in fields(FAMILIES[outer])]
    if sorted(names) != sorted(arrays):
        raise InputError(f"arrays of {family}", expected=", ".join(names), got=", ".join(arrays) or "none")
    return FAMILIES[outer](
        **{name: torch.from_numpy(np.require(arrays[name], requirements=["C", "W"])) for name in names}
    )


def group_sums(values: Tensor, groups: Tensor) -> Tensor:
    """Sums of rows by group, (G, ...): `groups` has a number from 0 to G - 1 for every row, each at least once."""
    if groups.shape != (len(values),) or groups.is_floating_point() or (len(groups) and groups.min() < 0):
        raise InputError("groups", expected=f"{len(values)} numbers from 0 on", got=f"{tuple(groups.shape)}")
    if len(groups) and not (torch.bincount(groups) > 0).all():
        raise InputError("groups", expected="all numbers up to the largest", got="a gap", fix="count them from 0 on")
    count = int(groups.max()) + 1 if len(groups) else 0
    return values.new_zeros(count, *values.shape[1:]).index_add_(0, groups.to(values.device, torch.long), values)
