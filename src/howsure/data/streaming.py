"""From an `ImageSet` to pixels in tensors: in blocks, or all at once. Broken pictures are left out and reported."""

from __future__ import annotations

import math
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from howsure.data.images import ImageSet, Skipped
from howsure.data.input_spec import InputSpec
from howsure.errors import DataError, InputError

if TYPE_CHECKING:
    from torch import Tensor

_IN_MEMORY = 1 << 30  # bytes; more than that goes to a file
_RUN = 16  # pictures for one thread at a time: a task for each would cost as much as decoding a small one
_REPORTED = 64  # pictures between two reports of progress: seconds, where they are large photographs
_AHEAD = 2  # blocks decoded before they are asked for


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some pictures of a set: `pixels[j]` is picture `indices[j]`; none at all when a whole block is broken."""

    indices: np.ndarray  # (b,)
    pixels: Tensor  # (b, C, H, W) uint8
    skipped: tuple[Skipped, ...]
    measures: np.ndarray | None = None  # (b, M) of their quality, where it was asked for


@dataclass(frozen=True, eq=False)
class Decoded:
    """All readable pictures of a set: `pixels[j]` belongs to `images.ids[j]`."""

    pixels: Tensor  # (n, C, H, W) uint8
    images: ImageSet
    skipped: tuple[Skipped, ...]


def stream(
    images: ImageSet, spec: InputSpec, *, batch: int = 256, strict: bool = False, measured: bool = False
) -> Iterator[Chunk]:
    """The pictures in order, `batch` at a time, decoded by several threads a little ahead of the reader.

    A picture that cannot be read is missing from its chunk and listed in `skipped`; with `strict` it raises. With
    `measured` each brings its quality, see `howsure.data.measures`.
    """
    if batch < 1:
        raise InputError("batch", expected="at least 1", got=str(batch))
    pool = ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1), thread_name_prefix="howsure-decode")
    waiting: deque[list[Future[list[_Outcome]]]] = deque()
    try:
        for start in range(0, len(images), batch):
            block = range(start, min(start + batch, len(images)))
            runs = [block[i : i + _RUN] for i in range(0, len(block), _RUN)]
            waiting.append(
                [pool.submit(_read, images, spec, rows=run, strict=strict, measured=measured) for run in runs]
            )
            if len(waiting) > _AHEAD:
                yield _chunk(waiting.popleft(), spec)
        while waiting:
            yield _chunk(waiting.popleft(), spec)
    finally:
        pool.shutdown(cancel_futures=True)


_Outcome = tuple[int, tuple[np.ndarray, np.ndarray | None] | Skipped]  # pixels and measures, or why there are none


def _read(images: ImageSet, spec: InputSpec, *, rows: range, strict: bool, measured: bool) -> list[_Outcome]:
    from howsure.data.measures import measure  # brings scipy

    outcomes: list[_Outcome] = []
    for i in rows:
        try:
            image = images.image(i)
            found = spec.pixels(image), measure(image, side=spec.side) if measured else None
            outcomes.append((i, found))
        except DataError as error:
            if strict:
                raise
            path = images.paths[i]
            outcomes.append((i, Skipped(images.ids[i], None if path is None else str(path), error.got)))
    return outcomes


def _chunk(runs: list[Future[list[_Outcome]]], spec: InputSpec) -> Chunk:
    import torch

    outcomes = [outcome for run in runs for outcome in run.result()]
    read = [(i, found) for i, found in outcomes if not isinstance(found, Skipped)]
    stacked = np.empty((len(read), spec.channels, spec.height, spec.width), dtype=np.uint8)
    for row, (_, (pixels, _)) in zip(stacked, read, strict=True):
        row[:] = pixels
    measures = [found for _, (_, found) in read if found is not None]
    skipped = tuple(found for _, found in outcomes if isinstance(found, Skipped))
    indices = np.array([i for i, _ in read], dtype=np.int64)
    return Chunk(indices, torch.from_numpy(stacked), skipped, np.array(measures) if measures else None)


def pixels(
    images: ImageSet, spec: InputSpec, *, strict: bool = False, progress: Callable[[int], None] | None = None
) -> Decoded:
    """All pictures at once, in memory up to 1 GiB and in an unnamed temporary file beyond it.

    That no picture at all can be read is an error. `progress` is called with the number of pictures done.
    """
    import torch

    store = _store((len(images), spec.channels, spec.height, spec.width))
    kept: list[np.ndarray] = []
    skipped: list[Skipped] = []
    filled = 0
    for chunk in stream(images, spec, batch=_REPORTED, strict=strict):
        store[filled : filled + len(chunk.indices)] = chunk.pixels.numpy()
        filled += len(chunk.indices)
        kept.append(chunk.indices)
        skipped.extend(chunk.skipped)
        if progress:
            progress(filled + len(skipped))
    if skipped and not filled:
        raise none_readable(images, skipped)
    survivors = images.subset(np.concatenate(kept)) if skipped else images
    return Decoded(torch.from_numpy(store[:filled]), survivors, tuple(skipped))


def none_readable(images: ImageSet, skipped: Sequence[Skipped]) -> DataError:
    """The error for a set in which not a single picture can be used."""
    first = f"; the first, {skipped[0].path or skipped[0].id}: {skipped[0].reason}" if skipped else ""
    return DataError(images.name, expected="at least one readable picture", got=f"none of {len(images)}{first}")


def _store(shape: tuple[int, ...]) -> np.ndarray:
    size = math.prod(shape)
    if size <= _IN_MEMORY:
        return np.empty(shape, dtype=np.uint8)
    # The file has no name and lives as long as the array, however the process ends.
    with tempfile.TemporaryFile(prefix="howsure-") as file:
        try:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):  # a sparse file would end the process with a bus error on a full disk
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            where = tempfile.gettempdir()
            got = str(error.strerror).lower()
            fix = "set TMPDIR to a folder with more room, or use smaller pictures"
            raise DataError(where, expected=f"{size / 1e9:.1f} GB for pixels", got=got, fix=fix) from error
        return np.memmap(file, dtype=np.uint8, mode="r+", shape=shape)
