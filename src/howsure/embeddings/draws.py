"""One embedding per draw of the network's weights: Laplace samples, dropout passes, ensemble members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import torch
from torch import Tensor

from howsure.embeddings.base import Embedding
from howsure.embeddings.gaussian import Gaussian
from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class Draws(Embedding):
    """S networks' embeddings of N items; draw s is one network for all items, so draws are compared draw by draw.

    `atoms` is an embedding of any other family with item axes (N, S). By the law of total variance

        variance = aleatoric + epistemic = mean_s variance_s + var_s mean_s        (population)

    >>> from howsure import Point
    >>> draws = Draws.stack([Point(torch.tensor([[0.0]])), Point(torch.tensor([[2.0]]))])
    >>> draws.mean, draws.epistemic, draws.aleatoric
    (tensor([[1.]]), tensor([[1.]]), tensor([[0.]]))
    """

    name: ClassVar[str] = "draws"
    atoms: Embedding

    def __post_init__(self) -> None:
        if not isinstance(self.atoms, Embedding) or self.atoms.name == self.name or len(_items(self.atoms)) != 2:
            got = (
                f"{self.atoms.family} of mean {tuple(self.atoms.mean.shape)}"
                if isinstance(self.atoms, Embedding)
                else "no embedding"
            )
            raise InputError(
                "draws atoms", expected="a family with item axes (N, S)", got=got, fix="use Draws.stack(...)"
            )
        if _items(self.atoms)[1] == 0:
            raise InputError("draws atoms", expected="at least one draw", got="none")

    @classmethod
    def stack(cls, draws: Sequence[Embedding]) -> Draws:
        """Join the embeddings that S networks give to the same items."""
        if not draws:
            raise InputError("draws", expected="at least one embedding", got="none")
        shapes = {(draw.family, *(tuple(t.shape) for t in draw.tensors().values())) for draw in draws}
        if len(shapes) > 1:
            got = " and ".join(map(str, sorted(shapes, key=str)))
            raise InputError("draws", expected="one family and shape in every draw", got=got)
        rows = [draw.tensors() for draw in draws]
        return cls(draws[0].rebuild({name: torch.stack([row[name] for row in rows], 1) for name in rows[0]}))

    @property
    def aleatoric(self) -> Tensor:
        """The variance within draws, (N, D)."""
        return self.atoms.variance.mean(1)

    @property
    def epistemic(self) -> Tensor:
        """The variance between draws, (N, D)."""
        means = self.atoms.mean
        return (means - means.mean(1, keepdim=True)).square().mean(1)  # Tensor.var warns about empty batches

    @property
    def mean(self) -> Tensor:
        return self.atoms.mean.mean(1)

    @property
    def point_estimate(self) -> Tensor:
        return self.atoms.point_estimate.mean(1)

    @property
    def variance(self) -> Tensor:
        return self.aleatoric + self.epistemic

    @property
    def novelty(self) -> Tensor | None:
        """The mean over draws, where each keeps it.

        Twice the mean of p-values is a p-value, however they depend on each other: an alarm at 1 - a is false for at
        most a share 2a of in-distribution pictures.
        """
        novelty = self.atoms.novelty
        return None if novelty is None else novelty.mean(1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Sample i comes from draw i mod S, the same draw for every item."""
        draws = self.by_draw()
        drawn = [draw.sample(len(range(s, n, len(draws))), generator) for s, draw in enumerate(draws)]
        # Draw s gave samples s, s + S, s + 2S, ...
        samples = drawn[0].new_empty(n, *drawn[0].shape[1:])
        for s, part in enumerate(drawn):
            samples[s :: len(draws)] = part
        return samples

    def rotated(self, rotation: Tensor) -> Self:
        return type(self)(self.atoms.rotated(rotation))

    def by_draw(self) -> tuple[Embedding, ...]:
        return tuple(self.atoms.map(lambda t, s=s: t[:, s]) for s in range(_items(self.atoms)[1]))  # type: ignore[misc]

    def to_gaussian(self) -> Gaussian:
        """Match the first two moments. Loses the draws, so query and gallery can no longer be compared draw by draw."""
        return Gaussian(self.mean, self.variance.sqrt())

    def fused(self, groups: Tensor) -> Embedding:
        return draw_by_draw(self, lambda draw: draw.fused(groups))

    @property
    def family(self) -> str:
        return f"{self.name}:{self.atoms.family}"

    def tensors(self) -> dict[str, Tensor]:
        return self.atoms.tensors()

    def rebuild(self, tensors: Mapping[str, Tensor]) -> Self:
        return type(self)(self.atoms.rebuild(tensors))

    def checked(self) -> Self:
        self.atoms.checked()
        return self


def draw_by_draw(embedding: Embedding, function: Callable[[Embedding], Embedding]) -> Embedding:
    """`function` of every draw, as draws; where there is one draw alone, what it gives."""
    parts = [function(draw) for draw in embedding.by_draw()]
    return parts[0] if len(parts) == 1 else Draws.stack(parts)


def _items(atoms: Embedding) -> tuple[int, ...]:
    # Read off a field: a mean may cost something, and on the meta device there is none.
    spec = fields(atoms)[0]
    tensor: Tensor = getattr(atoms, spec.name)
    return tuple(tensor.shape[: tensor.ndim - spec.metadata["axes"]])
