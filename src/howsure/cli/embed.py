"""howsure embed: beliefs about pictures, as arrays."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli.console import Json, Strict, device, print_json, progress, report_skipped, skipped_json
from howsure.errors import InputError


def embed(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Pictures: a folder, a file, a CSV or JSONL, or a set.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The .npz file to write.")],
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Write beliefs about pictures to a .npz file: the family's arrays, ids, labels, mean, variance, uncertainty."""
    if out.suffix != ".npz":
        raise InputError("out", expected="a name that ends in .npz", got=str(out))
    import numpy as np

    from howsure import data as pictures
    from howsure.embedder import Embedder
    from howsure.files import write_whole

    embedder = Embedder.load(model).to(device())
    images = pictures.load(data)
    with progress("embedding", len(images)) as bar:
        encoded = embedder.encode_set(images, strict=strict, progress=bar)
    belief = encoded.embedding
    arrays: dict[str, Any] = belief.arrays() | {
        "family": np.array(belief.family),
        "about": np.array(json.dumps({"model": str(model.resolve()), "fingerprint": embedder.fingerprint})),
        "ids": np.array(encoded.images.ids),
        "labels": np.array([label or "" for label in encoded.images.labels]),
        "mean": belief.mean.numpy(),
        "variance": belief.variance.numpy(),
        "uncertainty": belief.uncertainty.numpy(),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, buffer.getvalue())
    report_skipped(encoded.skipped)
    if as_json:
        shape = {"items": len(belief), "dim": belief.dim, "family": belief.family}
        print_json({"file": str(out), **shape, "skipped": skipped_json(encoded.skipped)})
    else:
        print(f"{out}: {len(belief)} {belief.family} embeddings in {belief.dim} dimensions")
