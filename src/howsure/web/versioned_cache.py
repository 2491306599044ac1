"""Things that take long to make, each kept until the gallery is no longer the one that it was made for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["VersionedCache"]

T = TypeVar("T")


class VersionedCache:
    """The last thing of each kind. Whoever asks while one is being made waits for it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, Any]] = {}
        self._turn = threading.Lock()

    def make(self, what: str, at: Hashable, maker: Callable[[], T]) -> T:
        """The thing for this state; made now if there is none."""
        with self._turn:
            if what not in self._kept or self._kept[what][0] != at:
                self._kept[what] = at, maker()
            found: T = self._kept[what][1]
            return found

    def found(self, what: str, at: Hashable) -> Any | None:
        """The thing for this state if there is one; does not wait."""
        made_at, found = self._kept.get(what, (None, None))
        return found if made_at == at else None
