"""howsure embed: the embeddings of pictures, as arrays."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from howsure.cli.console import Json, Strict, print_json, require_suffix
from howsure.cli.model import encode, load_model


def embed(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Pictures: a folder, a file, a CSV or JSONL, or a set.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The .npz file to write.")],
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Write embeddings of pictures to a .npz file: the family's arrays, ids, labels, mean, variance, uncertainty."""
    require_suffix(out, ".npz")
    import numpy as np

    from howsure.files import write_whole

    embedder = load_model(model)
    encoded = encode(embedder, data, strict=strict)
    embedding = encoded.embedding
    arrays: dict[str, Any] = embedding.arrays() | {
        "family": np.array(embedding.family),
        "about": np.array(json.dumps({"model": str(model.resolve()), "fingerprint": embedder.fingerprint})),
        "ids": np.array(encoded.images.ids),
        "labels": np.array([label or "" for label in encoded.images.labels]),
        "mean": embedding.mean.numpy(),
        "variance": embedding.variance.numpy(),
        "uncertainty": embedding.uncertainty.numpy(),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, buffer.getvalue())
    if as_json:
        shape = {"items": len(embedding), "dim": embedding.dim, "family": embedding.family}
        print_json({"file": str(out), **shape, "skipped": encoded.skipped})
    else:
        print(f"{out}: {len(embedding)} {embedding.family} embeddings in {embedding.dim} dimensions")
