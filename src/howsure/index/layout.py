"""How the moments of one item lie in memory and on disk: a packed record, the same for every item of a gallery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from howsure.embeddings import Embedding, restore
from howsure.errors import GalleryError, InputError

_DTYPES = {torch.float16: "<f2", torch.float32: "<f4", torch.float64: "<f8"}


@dataclass(frozen=True)
class Layout:
    """What the first items fixed for all others: family, precision, and the shape of each field."""

    family: str
    dtype: str
    shapes: Mapping[str, tuple[int, ...]]  # of one item, by field
    dim: int
    draws: int

    @classmethod
    def from_embedding(cls, embedding: Embedding) -> Layout:
        """The layout of this embedding's items."""
        if embedding.dtype not in _DTYPES:
            raise InputError(
                "embedding",
                expected="float16, float32 or float64",
                got=str(embedding.dtype),
                fix="use .to(dtype=torch.float32)",
            )
        if embedding.dim == 0:
            raise InputError("embedding", expected="at least one dimension", got="none")
        shapes = {name: tuple(tensor.shape[1:]) for name, tensor in embedding.tensors().items()}
        return cls(embedding.family, _DTYPES[embedding.dtype], shapes, embedding.dim, len(embedding.by_draw()))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Layout:
        """The layout that `to_json` wrote."""
        shapes = {name: tuple(shape) for name, shape in stored["shapes"].items()}
        return cls(**{**stored, "shapes": shapes})

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @cached_property
    def record(self) -> np.dtype[Any]:
        """One item: all fields, one after the other, little-endian."""
        return np.dtype([(name, self.dtype, shape) for name, shape in self.shapes.items()])

    @cached_property
    def mean_is_point_estimate(self) -> bool:
        """Whether that is so in this family."""
        return torch.equal(self._ones.mean, self._ones.point_estimate)

    @cached_property
    def has_variance(self) -> bool:
        """Whether items of this family can have any, in a draw."""
        return bool(self._ones.variance.any())

    @cached_property
    def _ones(self) -> Embedding:
        """One item with 1 in every field, on which to see what its family does."""
        return self.unpack(np.ones(1, self.record), np.float64)

    def pack(self, embedding: Embedding) -> np.ndarray:
        """(N,) records, bit for bit."""
        records = np.empty(len(embedding), self.record)
        for name, array in embedding.arrays().items():
            records[name] = array
        return records

    def unpack(self, records: np.ndarray, dtype: DTypeLike | None = None) -> Embedding:
        """The embedding that `pack` was given; with a dtype, in another precision."""
        return restore(self.family, {name: records[name].astype(dtype or self.dtype) for name in self.shapes})

    def __str__(self) -> str:
        fields = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        return f"{self.family} of {np.dtype(self.dtype).name} with {fields} per item"

    def require(self, other: Layout) -> None:
        """Refuse items of another layout."""
        if other != self:
            raise GalleryError(
                "items for this gallery",
                expected=str(self),
                got=str(other),
                fix="embed them with the model of this gallery, or create a new gallery",
            )

    def require_dim(self, query: Embedding) -> None:
        """Refuse a query of another dimension."""
        if query.dim != self.dim:
            raise InputError(
                "dimension of the query",
                expected=f"{self.dim}, as in the gallery",
                got=str(query.dim),
                fix="embed both with one model",
            )
