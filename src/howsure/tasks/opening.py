"""A gallery goes with the model that made it, and with no other."""

from __future__ import annotations

from pathlib import Path

from howsure.decide import Policy
from howsure.embedder import Embedder
from howsure.errors import GalleryError, ModelError
from howsure.index import Index
from howsure.match import Matcher

__all__ = ["model_of"]


def model_of(index: Index, gallery: str, model: Path | None) -> tuple[Embedder, Policy | None, Matcher | None]:
    """The model that made a gallery, with its policy and its matcher; `model` says where it is, if it has moved."""
    path = model or Path(index.about.get("model", ""))
    try:
        embedder = Embedder.load(path)
    except ModelError as error:
        raise ModelError(f"the model of gallery {gallery}: {error}", fix="say where it is: --model MODEL") from error
    if embedder.fingerprint != index.about.get("fingerprint"):
        raise GalleryError(
            f"gallery {gallery}",
            expected=f"the model that made it, {index.about.get('fingerprint')}",
            got=f"{embedder.fingerprint} at {path}",
            fix="give the right --model, or index again",
        )
    first = embedder.card.get("matcher")
    return embedder, Policy.load(path, model=embedder.fingerprint), Matcher(**first) if first else None
