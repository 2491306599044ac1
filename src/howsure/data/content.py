"""What a picture holds, as 64 bits: the same for every copy, whatever its file is called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as array_bytes

from howsure.errors import ModelError
from howsure.files import write_whole

if TYPE_CHECKING:
    from torch import Tensor

SEEN_FILE = "seen.safetensors"
HASHES = "content"  # the array in that file
NOTE, MASK = "content", 2**64 - 1  # its name among the notes of an item; JSON takes 64 bits as text


def content_hashes(rows: Tensor | np.ndarray) -> np.ndarray:
    """One hash a row, (N,) int64: 64 bits of BLAKE2b over its bytes.

    Of pictures, give the pixels that a network takes, before they are normalised: then a PNG made from a JPEG has the
    hash of that JPEG. Two different ones among a million have the same with a probability of 3e-8.

    >>> a, b, c = content_hashes(np.array([[1, 2], [3, 4], [1, 2]], np.uint8))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    array = np.ascontiguousarray(rows)
    digests = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in array)
    return np.frombuffer(digests, "<i8").astype(np.int64)


def content_note(content: int | np.integer) -> dict[str, str]:
    """A content hash among the notes that a gallery keeps of an item."""
    return {NOTE: f"{int(content) & MASK:016x}"}


def noted_content(notes: Mapping[str, Any]) -> int | None:
    """The content hash among the notes of an item; None where there is none.

    >>> noted_content(content_note(-2)), noted_content({"path": "a.jpg"})
    (-2, None)
    """
    return int(np.uint64(int(notes[NOTE], 16)).astype(np.int64)) if NOTE in notes else None


def without_content(notes: Mapping[str, Any]) -> dict[str, Any]:
    """The other notes."""
    return {name: value for name, value in notes.items() if name != NOTE}


@dataclass(frozen=True, eq=False)
class SeenContent:
    """Content hashes of the pictures that a model was trained on or fitted to."""

    hashes: np.ndarray  # (N,) int64, sorted, each once
    complete: bool  # whether these are all of them

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashes", np.unique(self.hashes))

    def __or__(self, other: SeenContent) -> SeenContent:
        """What either has seen."""
        return SeenContent(np.concatenate([self.hashes, other.hashes]), self.complete and other.complete)

    def holds(self, content: np.ndarray) -> np.ndarray:
        """Which of these hashes (N,) are among them, bool."""
        return np.isin(content, self.hashes)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write `seen.safetensors`; returns what names it on the card of the model."""
        content = array_bytes({HASHES: self.hashes})
        write_whole(folder / SEEN_FILE, content)
        return {"count": len(self.hashes), "complete": self.complete, "checksum": _checksum(content)}


UNKNOWN = SeenContent(np.empty(0, np.int64), complete=False)


def read_seen(folder: Path, named: Mapping[str, Any]) -> SeenContent:
    """What `save` wrote, under the name on the card."""
    file = folder / SEEN_FILE
    try:
        content = file.read_bytes()
        if _checksum(content) != named["checksum"]:
            raise ValueError("other content than the card names")
        return SeenContent(parse_arrays(content)[HASHES], named["complete"])
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        expected, fix = f"the hashes of the {named['count']} pictures that the model has seen", "copy the model again"
        raise ModelError(f"{file}", expected=expected, got=str(error), fix=fix) from error


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
