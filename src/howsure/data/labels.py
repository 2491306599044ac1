"""Labels and ids as people give them: text, integers, arrays of either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from howsure.errors import InputError


def checked_labels(labels: Iterable[Any], count: int) -> list[str | None]:
    """Labels as text; None stays, for an identity that is not known.

    >>> checked_labels(np.array([3, 1]), 2)
    ['3', '1']
    """
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError("labels", expected="one for every item", got=repr(labels)[:60], fix="use a list")
    listed = labels.tolist() if isinstance(labels, (np.ndarray, Tensor)) else list(labels)
    if not isinstance(listed, list) or len(listed) != count:
        got = str(len(listed)) if isinstance(listed, list) else "one"
        raise InputError("labels", expected=f"{count}, one for every item", got=got)
    return [None if label is None else checked_text(label, "label") for label in listed]


def checked_text(value: Any, what: str) -> str:
    """A label or an id: text as it is, an integer as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    raise InputError(what, expected="text or an integer", got=f"{type(value).__name__} {value!r}"[:80])


def paths_as_ids(items: Any) -> list[str] | None:
    """Paths name themselves; None for items of another sort."""
    listed = isinstance(items, Sequence) and len(items) and all(isinstance(item, (str, Path)) for item in items)
    return [Path(item).as_posix() for item in items] if listed else None
