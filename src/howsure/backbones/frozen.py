"""A frozen network, and a cache of its features."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from howsure.errors import InputError

BATCH = 16  # pictures of a forward pass while `remembering` is open: the last bits depend on how many
TIMEOUT = 60.0  # seconds to wait for another process that writes


class Frozen(nn.Module):
    """A network without gradients, always in eval mode."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network
        self.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> Frozen:
        super().train(False)
        return self

    def forward(self, pixels: Tensor) -> Tensor:
        """Features, from the cache where `remembering` is open and no gradient is needed."""
        cache = _CACHE.get()
        gradient = pixels.requires_grad or any(weight.requires_grad for weight in self.network.parameters())
        if cache is None or gradient:
            features: Tensor = self.network(pixels)
            return features
        return cache.features(self.network, pixels)


@contextmanager
def remembering(file: Path | None = None) -> Iterator[None]:
    """While this is open, every frozen network computes every picture once, whatever batch it comes in.

    A `file` keeps the features for the next process, and several can share it. Within another, the outer one is used.
    """
    if _CACHE.get() is not None:
        yield
        return
    cache = _FeatureCache(file)
    token = _CACHE.set(cache)
    try:
        yield
    finally:
        _CACHE.reset(token)
        cache.close()


class _FeatureCache:
    """Features by picture and network, both by content."""

    def __init__(self, file: Path | None):
        self._file = file
        self._names: dict[nn.Module, tuple[list[int], bytes]] = {}

    @cached_property
    def _store(self) -> sqlite3.Connection:
        """Opened by the first frozen network; most runs have none."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        # "" is a file without a name, in memory until it is large, that ends with its connection.
        store = sqlite3.connect("" if self._file is None else self._file, timeout=TIMEOUT)
        try:
            store.execute("PRAGMA journal_mode = WAL")
            store.execute("CREATE TABLE IF NOT EXISTS features (picture BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        except sqlite3.DatabaseError as error:
            store.close()
            raise InputError(
                f"{self._file}",
                expected="a cache of features",
                got=str(error),
                fix="delete it; it is made again",
            ) from error
        return store

    def close(self) -> None:
        if "_store" in self.__dict__:
            self._store.close()

    def features(self, network: nn.Module, pixels: Tensor) -> Tensor:
        name = self._name(network) + str(tuple(pixels.shape[1:])).encode()
        keys = [hashlib.sha256(name + picture.tobytes()).digest() for picture in pixels.contiguous().cpu().numpy()]
        known = {key: value for key in keys if (value := self._read(key)) is not None}
        new = {key: row for row, key in enumerate(keys) if key not in known}
        for start in range(0, len(new), BATCH):
            some = list(new)[start : start + BATCH]
            batch = pixels.new_zeros(BATCH, *pixels.shape[1:])
            batch[: len(some)] = pixels[[new[key] for key in some]]
            with torch.no_grad():
                made = network(batch.contiguous(memory_format=torch.channels_last))[: len(some)].cpu().numpy()
            known |= {key: value.tobytes() for key, value in zip(some, made, strict=True)}
        with self._store:
            self._store.executemany("INSERT OR IGNORE INTO features VALUES (?, ?)", [(key, known[key]) for key in new])
        found = np.frombuffer(b"".join(known[key] for key in keys), np.float32).reshape(len(keys), -1)
        return torch.from_numpy(found.copy()).to(pixels.device)

    def _read(self, key: bytes) -> bytes | None:
        row = self._store.execute("SELECT value FROM features WHERE picture = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def _name(self, network: nn.Module) -> bytes:
        """Of exactly these weights; made again when they have changed."""
        state = network.state_dict()
        versions = [tensor._version for tensor in state.values()]
        if network not in self._names or self._names[network][0] != versions:
            whole = hashlib.sha256()
            for tensor in state.values():
                whole.update(tensor.contiguous().cpu().numpy().tobytes())
            self._names[network] = versions, whole.digest()
        return self._names[network][1]


_CACHE: ContextVar[_FeatureCache | None] = ContextVar("cache", default=None)
