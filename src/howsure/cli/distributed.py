"""Encoding across processes and hosts: `torchrun --nproc-per-node 2 -m howsure index DATA -m MODEL -o GALLERY`.

Pictures are encoded in the same batches as by one process, and each batch by one process, so the arrays are the same
too. The first process alone reads and writes the gallery; the others send it what they have encoded.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from howsure.errors import InputError

if TYPE_CHECKING:
    from howsure.data import ImageSet
    from howsure.embedder import Embedder, Encoded


def rank() -> int:
    """The number of this process; 0 if it is the first, or alone."""
    return int(os.environ.get("RANK", "0"))


def several() -> bool:
    """Whether torchrun started more than one process."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def process_group() -> Iterator[None]:
    """Inside, the processes can talk to each other."""
    if not several():
        yield
        return
    import torch.distributed as dist

    dist.init_process_group("gloo")
    try:
        yield
        dist.barrier()
    finally:
        dist.destroy_process_group()


def encode_shared(
    embedder: Embedder, images: ImageSet, part: ImageSet | None = None, *, strict: bool
) -> Iterator[Encoded]:
    """`embedder.encode_stream` over a part of the images, its batches shared out between the processes.

    The first process gives the part, and gets all batches; the others give None, and get none.
    """
    import torch.distributed as dist

    from howsure.gallery import BLOCK

    images = _agreed(images, part)
    size = dist.get_world_size()
    starts = range(0, len(images), BLOCK)
    own = [row for start in starts[rank() :: size] for row in range(start, min(start + BLOCK, len(images)))]
    batches = embedder.encode_stream(images.subset(own), batch=BLOCK, strict=strict)
    if rank() > 0:
        for batch in batches:
            _send(batch)
        return
    for number in range(len(starts)):
        yield next(batches) if number % size == 0 else _receive(number % size, images)


def _agreed(images: ImageSet, part: ImageSet | None) -> ImageSet:
    """The part that the first process gave, in every process."""
    import torch
    import torch.distributed as dist

    own = torch.tensor([0 if part is None else len(part), zlib.crc32(json.dumps(list(images.ids)).encode())])
    first = own.clone()
    dist.broadcast(first, src=0)
    if first[1] != own[1]:
        raise InputError(
            f"pictures of process {rank()}",
            expected="those of the first process",
            got="others",
            fix="give every host the same pictures under the same names",
        )
    positions = torch.tensor([0] * int(first[0]) if part is None else _positions(images, part.ids), dtype=torch.int64)
    dist.broadcast(positions, src=0)
    return images.subset(positions.tolist())


def _positions(images: ImageSet, ids: Sequence[str]) -> list[int]:
    position = {name: row for row, name in enumerate(images.ids)}
    return [position[name] for name in ids]


def _send(part: Encoded) -> None:
    import numpy as np
    import torch
    import torch.distributed as dist

    skipped = [(one.id, one.path, one.reason) for one in part.skipped]
    rest = json.dumps([part.embedding.family, list(part.images.ids), skipped]).encode()
    arrays: dict[str, Any] = {
        **part.embedding.to("cpu").arrays(),
        "content": part.content,
        "rest": np.frombuffer(rest, np.uint8),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    dist.send(torch.tensor([len(content)]), dst=0)
    dist.send(content, dst=0)


def _receive(source: int, images: ImageSet) -> Encoded:
    import numpy as np
    import torch
    import torch.distributed as dist

    from howsure.data import Skipped
    from howsure.embedder import Encoded
    from howsure.embeddings import restore

    size = torch.empty(1, dtype=torch.int64)
    dist.recv(size, src=source)
    content = torch.empty(int(size), dtype=torch.uint8)
    dist.recv(content, src=source)
    with np.load(io.BytesIO(content.numpy().tobytes())) as arrays:
        family, ids, skipped = json.loads(arrays["rest"].tobytes())
        content = arrays["content"]
        embedding = restore(family, {name: array for name, array in arrays.items() if name not in ("content", "rest")})
    part = images.subset(_positions(images, ids))
    return Encoded(embedding, part, tuple(Skipped(*one) for one in skipped), content)
