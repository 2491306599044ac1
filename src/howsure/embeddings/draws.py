"""One embedding per draw of the network's weights: Laplace samples, dropout passes, ensemble members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import torch
from torch import Tensor

from howsure.embeddings.base import Embedding
from howsure.embeddings.gaussian import Gaussian
from howsure.errors import InputError


@dataclass(frozen=True, eq=False)
class Draws(Embedding):
    """S networks' views of N items; draw s is the same network for every item, so draws are compared draw by draw.

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
        kinds = {(draw.family, *(tuple(t.shape) for t in draw.tensors().values())) for draw in draws}
        if len(kinds) > 1:
            raise InputError(
                "draws",
                expected="one family and shape in every draw",
                got=" and ".join(map(str, sorted(kinds, key=str))),
            )
        rows = [draw.tensors() for draw in draws]
        return cls(draws[0].rebuild({name: torch.stack([row[name] for row in rows], 1) for name in rows[0]}))

    @property
    def aleatoric(self) -> Tensor:
        """What each network says about the picture, (N, D)."""
        return self.atoms.variance.mean(1)

    @property
    def epistemic(self) -> Tensor:
        """What the networks disagree about, (N, D)."""
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

        Twice the mean of p-values is a p-value, however they hang together: an alarm at 1 - a is false for at most a
        share 2a of usual pictures.
        """
        told = self.atoms.novelty
        return None if told is None else told.mean(1)

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
        """Match the first two moments. Loses which draw said what, so a query no longer meets its own gallery."""
        return Gaussian(self.mean, self.variance.sqrt())

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


def _items(atoms: Embedding) -> tuple[int, ...]:
    # Read off a field: a mean may cost something, and on the meta device there is none.
    spec = fields(atoms)[0]
    tensor: Tensor = getattr(atoms, spec.name)
    return tuple(tensor.shape[: tensor.ndim - spec.metadata["axes"]])
