"""What was taken out of the gallery, so that it can come back."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from howsure.embeddings import Embedding
from howsure.index import Item

__all__ = ["Removal", "Removals"]

REMEMBERED = 64


@dataclass(frozen=True, eq=False)
class Removal:
    """An item and its belief."""

    item: Item
    belief: Embedding


class Removals:
    """The last few removals, each under a token; `forget` is called with every one that can no longer come back."""

    def __init__(self, forget: Callable[[Removal], None], *, remembered: int = REMEMBERED):
        self._forget, self._remembered = forget, remembered
        self._kept = OrderedDict[str, Removal]()
        self._turn = threading.Lock()

    def keep(self, removal: Removal) -> str:
        """The token that brings it back."""
        token = secrets.token_urlsafe(16)
        with self._turn:
            self._kept[token] = removal
            gone = [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - self._remembered)]
        for one in gone:
            self._forget(one)
        return token

    def get(self, token: str) -> Removal | None:
        """None for a token that is used, too old or wrong."""
        with self._turn:
            return self._kept.get(token)

    def drop(self, token: str) -> None:
        """It has come back."""
        with self._turn:
            self._kept.pop(token, None)

    def close(self) -> None:
        """Nothing comes back after this."""
        with self._turn:
            gone = list(self._kept.values())
            self._kept.clear()
        for one in gone:
            self._forget(one)
