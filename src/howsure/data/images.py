"""Labelled pictures, opened on demand: from memory or from files."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from PIL import Image

from howsure.data.decoding import decode
from howsure.errors import InputError


@dataclass(frozen=True)
class Skipped:
    """A picture that could not be used, and why, in a few words."""

    id: str
    path: str | None
    reason: str


@dataclass(frozen=True, eq=False)
class ImageSet(ABC):
    """N pictures with unique ids and labels (None where unknown); pixels are read only when asked for."""

    name: str
    ids: tuple[str, ...]
    labels: tuple[str | None, ...]

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.ids):
            raise InputError("labels", expected=f"one for each of {len(self.ids)} ids", got=str(len(self.labels)))
        if len(set(self.ids)) != len(self.ids):
            twice, count = Counter(self.ids).most_common(1)[0]
            raise InputError("ids", expected="each once", got=f"{twice!r} {count} times")

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """The file of each picture; None for a picture in memory."""
        return (None,) * len(self)

    def stamp(self, i: int) -> dict[str, Any]:
        """The source of picture i, and enough to see that its file has not changed."""
        path = self.paths[i]
        if path is None:
            return {"source": self.name}
        try:
            stat = path.stat()
        except OSError:
            return {"path": str(path.absolute())}
        return {"path": str(path.absolute()), "bytes": stat.st_size, "modified": stat.st_mtime_ns}

    @abstractmethod
    def image(self, i: int) -> Image.Image:
        """Picture i, upright, in mode "L" or "RGB"; `DataError` when it cannot be read."""

    @abstractmethod
    def _rows(self, indices: np.ndarray) -> dict[str, Any]:
        """The fields of a subset beyond ids and labels."""

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The distinct labels, sorted as text; pictures without a label have no class."""
        return tuple(sorted({label for label in self.labels if label is not None}))

    def subset(self, indices: Sequence[int] | Sequence[bool] | np.ndarray) -> Self:
        """The pictures at these indices, in this order; a mask of N booleans works too.

        >>> digits = ArrayImages("tiny", ("a", "b", "c"), ("0", "1", "0"), np.zeros((3, 8, 8), np.uint8))
        >>> digits.subset([2, 0]).ids
        ('c', 'a')
        """
        wanted = np.asarray(indices)
        try:
            rows = np.arange(len(self))[wanted if wanted.size else wanted.astype(int)]
        except IndexError as error:
            raise InputError(
                "indices", expected=f"0 to {len(self) - 1}, or {len(self)} booleans", got=str(error)
            ) from None
        ids, labels = tuple(self.ids[i] for i in rows), tuple(self.labels[i] for i in rows)
        return replace(self, ids=ids, labels=labels, **self._rows(rows))

    def renamed(self, name: str) -> Self:
        """The same pictures under another name."""
        return replace(self, name=name)


@final
@dataclass(frozen=True, eq=False)
class ArrayImages(ImageSet):
    """Pictures in memory: uint8, (N, H, W) grey or (N, H, W, 3) colour."""

    array: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.array.shape
        if self.array.dtype != np.uint8 or len(shape) not in (3, 4) or shape[3:] not in ((), (3,)):
            raise InputError("array", expected="uint8, (N, H, W) or (N, H, W, 3)", got=f"{self.array.dtype}, {shape}")
        if len(self.array) != len(self.ids):
            raise InputError("array", expected=f"one picture for each of {len(self.ids)} ids", got=str(len(self.array)))

    def image(self, i: int) -> Image.Image:
        return Image.fromarray(self.array[i])

    def _rows(self, indices: np.ndarray) -> dict[str, Any]:
        return {"array": self.array[indices]}


@final
@dataclass(frozen=True, eq=False)
class FileImages(ImageSet):
    """Pictures in files. A file is first looked at when its picture is asked for."""

    files: tuple[Path, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.files) != len(self.ids):
            raise InputError("files", expected=f"one for each of {len(self.ids)} ids", got=str(len(self.files)))

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.files

    def image(self, i: int) -> Image.Image:
        return decode(self.files[i])

    def _rows(self, indices: np.ndarray) -> dict[str, Any]:
        return {"files": tuple(self.files[i] for i in indices)}
