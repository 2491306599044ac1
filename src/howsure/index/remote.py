"""The engine of one search on a server: candidates from there, their moments kept for the comparison here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from howsure.errors import GalleryError, GalleryUnavailableError
from howsure.index.engines import Candidates
from howsure.index.engines.server import Hit, Server
from howsure.index.layout import Layout

# Candidates of one query: an approximate engine cannot say how many are enough, so there are plenty.
CANDIDATES = 200


class Remote:
    """A gallery of `known` items, searched for k. Satisfies `Finder`."""

    def __init__(self, server: Server, layout: Layout, *, k: int, known: int):
        self._server, self._layout, self._k, self._known = server, layout, k, known
        self.hits: dict[int, Hit] = {}

    def candidates(self, keys: np.ndarray, count: int) -> Candidates:
        found = self._server.nearest(keys, max(count, CANDIDATES))
        lengths = [len(hits) for hits in found.hits]
        if min(lengths) < self._k:
            raise GalleryUnavailableError(
                f"gallery {self._server.place}",
                expected=f"{self._k} candidates",
                got=str(min(lengths)),
                fix="a node or a shard may be down; try again, or look at the server",
            )
        numbers = np.full((len(keys), max(lengths)), -1, np.int64)
        for row, hits in enumerate(found.hits):
            self.hits.update({hit.number: hit for hit in hits})
            numbers[row, : len(hits)] = [hit.number for hit in hits]
        everything = np.array(lengths) >= self._known
        return Candidates(numbers, np.where(everything, np.inf, found.reach))

    def records(self, numbers: np.ndarray) -> np.ndarray:
        return unpacked([self.hits[number].moments for number in numbers.tolist()], self._layout)


def unpacked(moments: Sequence[bytes], layout: Layout) -> np.ndarray:
    """(N,) records."""
    size = layout.record.itemsize
    if any(len(one) != size for one in moments):
        raise GalleryError("moments of an item", expected=f"{size} bytes", got="another length", fix="index it again")
    return np.frombuffer(b"".join(moments), layout.record)
