"""What every gallery does, wherever its items are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Self

from howsure.embeddings import Embedding
from howsure.index.items import Item
from howsure.index.matches import Matches
from howsure.match import Matcher
from howsure.prior import Prior


class Gallery(Protocol):
    """The operations that `Index` documents: in a directory (`Index`) or on a server (`ServerIndex`)."""

    recovered: str | None

    @property
    def about(self) -> dict[str, Any]: ...

    @property
    def changes(self) -> int: ...

    @property
    def prior(self) -> Prior | None: ...

    def set_prior(self, prior: Prior) -> None: ...

    def describe(self, about: Mapping[str, Any]) -> None: ...

    def add(
        self,
        ids: Sequence[str],
        embedding: Embedding,
        *,
        labels: Sequence[str | None] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None: ...

    def remove(self, ids: Sequence[str]) -> int: ...

    def compact(self) -> None: ...

    def search(
        self,
        query: Embedding,
        k: int = 5,
        *,
        matcher: Matcher | None = None,
        by: Literal["distance", "likelihood"] = "distance",
        approximate: bool | None = None,
    ) -> Matches: ...

    def __len__(self) -> int: ...

    def __contains__(self, identity: object) -> bool: ...

    def ids(self) -> list[str]: ...

    def sample(self, count: int) -> list[str]: ...

    def present(self, ids: Sequence[str]) -> set[str]: ...

    def items(self, ids: Sequence[str]) -> list[Item]: ...

    def labels(self, ids: Sequence[str]) -> list[str | None]: ...

    def references(self, labels: Sequence[str | None]) -> list[int]: ...

    def get(self, ids: Sequence[str]) -> Embedding: ...

    def embedding(self) -> tuple[list[str], Embedding]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
