"""Slow looks at a whole gallery, each taken once for a state of it."""

from __future__ import annotations

import threading

from howsure.decide import Policy
from howsure.errors import GalleryError
from howsure.web.gallery_review import MOST, Neighbourhood, codes_of, look_around
from howsure.web.problems import RefusedError
from howsure.web.unknown_roc import Roc, unknown_roc
from howsure.web.versioned_cache import VersionedCache
from howsure.web.view import View

__all__ = ["Comparisons"]

QUICK = 4_000  # items that are compared in well under a second


class Comparisons:
    """What was found last. All but `known` may take long."""

    def __init__(self) -> None:
        self._once = VersionedCache()
        self._closed = threading.Event()

    def neighbours(self, view: View) -> Neighbourhood:
        """What its neighbours say about each item."""
        belief, labels, count = view.belief, view.labels, len(view.ids)
        if belief is None or not 2 <= count <= MOST:
            raise GalleryError("neighbours", expected=f"a gallery of 2 to {MOST:,} items", got=f"{count:,}")

        def look() -> Neighbourhood:
            return look_around(belief, codes_of(labels)[0], go_on=self._go_on)

        return self._once.make("neighbours", view.changes, look)

    def known(self, view: View) -> Neighbourhood | None:
        """The same without a wait: None where it would take long, or there is nothing to compare."""
        found: Neighbourhood | None = self._once.found("neighbours", view.changes)
        return self.neighbours(view) if found is None and 2 <= len(view.ids) <= QUICK else found

    def strangers(self, view: View, policy: Policy | None) -> Roc | str:
        """How well unknowns would be noticed, or why nobody can tell."""
        if policy is None:
            return "the model has no policy yet: run howsure calibrate"
        belief, labels = view.belief, view.labels
        if belief is None or len(labels) > MOST:
            return f"it takes 1 to {MOST:,} items"

        def look() -> Roc | str:
            return unknown_roc(belief, codes_of(labels)[0], policy, go_on=self._go_on)

        return self._once.make("strangers", view.changes, look)

    def close(self) -> None:
        """End what is under way."""
        self._closed.set()

    def _go_on(self) -> None:
        if self._closed.is_set():
            raise RefusedError(503, "comparison", expected="a server that runs", got="one that is being closed")
