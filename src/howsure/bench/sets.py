"""The pictures of an experiment about what a model never saw."""

from __future__ import annotations

from dataclasses import dataclass

from howsure.data import ImageSet

__all__ = ["Sets"]


@dataclass(frozen=True, eq=False)
class Sets:
    """Pictures to learn from, others of the same classes to judge by, and others of another kind."""

    training: ImageSet
    test: ImageSet
    unfamiliar: ImageSet
