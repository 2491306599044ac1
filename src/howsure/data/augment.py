"""Pictures changed a little each time they are shown, so that a network learns what does not matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from howsure.data.sets.n_digit import occlude
from howsure.data.suggest import did_you_mean
from howsure.errors import InputError

SHIFT = 0.125  # of each side, at most
OCCLUSION_PROB, MAX_SIDE = 0.2, 28  # what hedged instance embeddings were trained with

Augmentation = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def augment(pixels: np.ndarray, names: Sequence[str], *, rng: np.random.Generator) -> np.ndarray:
    """A changed copy of uint8 pictures (N, C, H, W): each of these keys of `AUGMENTATIONS` in turn.

    >>> augment(np.zeros((2, 3, 8, 8), np.uint8), ["flip", "shift"], rng=np.random.default_rng(0)).shape
    (2, 3, 8, 8)
    """
    for name in names:
        if name not in AUGMENTATIONS:
            known = list(AUGMENTATIONS)
            raise InputError("augment", expected=" or ".join(known), got=repr(name), fix=did_you_mean(name, known))
        pixels = AUGMENTATIONS[name](pixels, rng)
    return pixels


def _flip(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the pictures are mirrored left to right."""
    mirrored = rng.random(len(pixels)) < 0.5
    return np.where(mirrored[:, None, None, None], pixels[..., ::-1], pixels)


def _shift(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Moved by up to an eighth of each side; what comes in is a mirror image of the edge."""
    count, _, height, width = pixels.shape
    far = [int(SHIFT * side) for side in (height, width)]
    padded = np.pad(pixels, ((0, 0), (0, 0), (far[0], far[0]), (far[1], far[1])), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    top, left = (rng.integers(2 * room + 1, size=count) for room in far)
    return np.ascontiguousarray(windows[np.arange(count), :, top, left])


def _occlude_digits(pixels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A black square over a part of some digits of an N-digit picture."""
    if pixels.shape[1] != 1:
        raise InputError("augment occlude-digits", expected="grey pictures", got=f"{pixels.shape[1]} channels")
    return occlude(pixels[:, 0], occlusion_prob=OCCLUSION_PROB, sides=(0, MAX_SIDE), rng=rng)[:, None]


AUGMENTATIONS: dict[str, Augmentation] = {"flip": _flip, "shift": _shift, "occlude-digits": _occlude_digits}
