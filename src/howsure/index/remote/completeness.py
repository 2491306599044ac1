"""All of a gallery on a server, or an error: no answer is for fewer items than were acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.remote.contract import Server

T = TypeVar("T")


class Completeness:
    """The notes of a gallery, and whether what they tell of can be reached."""

    def __init__(self, server: Server):
        self._server = server

    def notes(self) -> dict[str, Any]:
        """What is known of the gallery at this moment."""
        notes = self._server.notes()
        if notes is None:
            raise GalleryError(f"gallery {self._server.url}", expected="a gallery", got="none any more")
        return notes

    def again(self, read: Callable[[dict[str, Any]], T]) -> T:
        """What `read` makes of the notes. If a change came between them and the items, it looks again.

        That ends: nobody changes a gallery without seeing all of it.
        """
        while True:
            notes = self.notes()
            try:
                return read(notes)
            except GalleryUnavailableError:
                if self.notes()["time"] == notes["time"]:
                    raise

    def checked_notes(self) -> dict[str, Any]:
        """The notes of a gallery all of which is in reach; the count is of what is there."""
        return self.again(lambda notes: {**notes, "count": self.require(notes)})

    def require(self, notes: dict[str, Any], *, shrunk: str | None = None) -> int:
        """How many items, or shrunk means, there are; an error if the server reaches fewer than were acknowledged."""
        reachable = self._server.reachable(shrunk=shrunk) if notes["layout"] else None
        count = int(notes["count"]) if reachable is None else reachable
        self.require_count(notes, count)
        return count

    def require_count(self, notes: dict[str, Any], got: int) -> None:
        """An error if so many are fewer than were acknowledged."""
        if got < notes["count"]:
            raise GalleryUnavailableError(
                f"gallery {self._server.url}",
                expected=f"all of its {notes['count']} items",
                got=f"{got} that the server can reach",
                fix="a node or a shard may be down; try again, or look at the server",
            )
