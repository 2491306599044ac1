"""What is done once before the first batch: pictures are read, and a frozen network sees each of them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from howsure import data
from howsure.backbones.frozen import BATCH, Frozen
from howsure.data import ImageSet, InputSpec
from howsure.data.streaming import Decoded
from howsure.embedder import Embedder
from howsure.training.events import Event, Preparation


def read_pictures(images: ImageSet, spec: InputSpec, *, strict: bool, tell: Callable[[Event], None]) -> Decoded:
    """The pixels of all pictures."""
    return data.pixels(
        images, spec, strict=strict, progress=lambda done: tell(Preparation("reading pictures", done, len(images)))
    )


def compute_features(embedder: Embedder, pixels: Tensor, *, tell: Callable[[Event], None]) -> None:
    """Every picture through a frozen backbone, while `remembering` is open: nearly all the time that training takes.

    The first epoch would do it too, but without a sign of how long it takes.
    """
    if not isinstance(embedder.backbone, Frozen):
        return
    for start in range(0, len(pixels), BATCH):
        embedder.backbone(embedder.spec.normalise(pixels[start : start + BATCH].to(embedder.device)))
        tell(Preparation("computing features", min(start + BATCH, len(pixels)), len(pixels)))
