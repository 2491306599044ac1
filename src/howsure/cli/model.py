"""A model inside a verb: loaded onto the device, run over pictures with a progress bar and a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from howsure.cli.console import device, progress, report_skipped
from howsure.errors import InputError, ModelError

if TYPE_CHECKING:
    from howsure.data import ImageSet
    from howsure.embedder import Embedder, Encoded


def load_model(path: Path) -> Embedder:
    """The model of a directory, where it will run."""
    from howsure.embedder import Embedder

    return Embedder.load(path).to(device())


def require_no_model(out: Path) -> None:
    """Refuse to overwrite a model."""
    if (out / "card.json").exists():
        raise ModelError(f"{out} already holds a model", fix="use another name")


def encode(
    embedder: Embedder, source: str | ImageSet, *, strict: bool, labelled: bool = False, measured: bool = False
) -> Encoded:
    """The embeddings of the pictures that can be read; with `labelled`, each of them must have a label.

    With `measured` also what measures their quality.
    """
    from howsure import data

    images = data.load(source) if isinstance(source, str) else source
    with progress(f"embedding {images.name}", len(images)) as bar:
        encoded = embedder.encode_set(images, strict=strict, measured=measured, progress=bar)
    report_skipped(encoded.skipped)
    missing = encoded.images.labels.count(None)
    if labelled and missing:
        raise InputError(f"labels of {images.name}", expected="one for every picture", got=f"{missing} missing")
    return encoded
