"""What a published set is, and how its files are vouched for."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from howsure.data.images import ImageSet
from howsure.errors import DataError


@dataclass(frozen=True)
class PublishedSet:
    """A set in its publisher's layout. `read(folder, splits)` joins the splits it is asked for."""

    name: str
    splits: tuple[str, ...]  # the first is what the bare name means; empty: the publisher has no splits
    folder: str  # below the data root; empty: comes with a dependency
    origin: str  # the publisher, and where
    read: Callable[[Path, tuple[str, ...]], ImageSet]


def official_bytes(path: Path, md5: str) -> bytes:
    """The content of a file whose checksum is published; anything else is an error."""
    content = path.read_bytes()
    # The publishers chose MD5; it finds damage, which is all that is asked of it.
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        got = f"{found} ({len(content):,} bytes)"
        fix = "the file is damaged, incomplete or not the official one; fetch it again"
        raise DataError(str(path), expected=f"MD5 {md5}", got=got, fix=fix)
    return content
