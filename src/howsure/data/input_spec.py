"""How a picture becomes the tensor that a network takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from PIL import Image

from howsure.data.decoding import decode
from howsure.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class InputSpec:
    """Size, channels and normalisation of a network's input; travels with the model.

    >>> spec = InputSpec(height=28, width=28, channels=1, mean=(0.5,), std=(0.5,))
    >>> spec.pixels(Image.new("RGB", (640, 480))).shape
    (1, 28, 28)
    >>> InputSpec.from_json(spec.to_json()) == spec
    True
    """

    height: int
    width: int
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(name, expected="a whole number of at least 1", got=repr(value))
        if self.channels not in (1, 3):
            raise InputError("channels", expected="1 (grey) or 3 (colour)", got=str(self.channels))
        for name in ("mean", "std"):
            values = getattr(self, name)
            if not (isinstance(values, tuple) and len(values) == self.channels and np.isfinite(values).all()):
                raise InputError(name, expected=f"{self.channels} finite numbers, one a channel", got=repr(values))
        if min(self.std) <= 0:
            raise InputError("std", expected="positive numbers", got=repr(self.std))

    @property
    def side(self) -> int:
        """Pixels of the shorter side."""
        return min(self.height, self.width)

    def pixels(self, image: Image.Image) -> np.ndarray:
        """The picture as uint8 (C, H, W).

        The largest centred part with the wanted proportions is resized (bilinear, antialiased), which is the same
        as scaling the shorter side and cropping the centre. A picture of the right size is left as it is.
        """
        image = decode(image)
        mode = "L" if self.channels == 1 else "RGB"
        image = image if image.mode == mode else image.convert(mode)
        if image.size != (self.width, self.height):
            scale = min(image.width / self.width, image.height / self.height)
            # Rounding can make the part larger than the picture by its last bit.
            left = max(0.0, (image.width - self.width * scale) / 2)
            top = max(0.0, (image.height - self.height * scale) / 2)
            box = (left, top, image.width - left, image.height - top)
            image = image.resize((self.width, self.height), Image.Resampling.BILINEAR, box=box)
        array = np.array(image)
        return array[None] if self.channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixels, uint8 (B, C, H, W), as float32 on the same device: `(pixels / 255 - mean) / std` by channel."""
        import torch

        wanted = (self.channels, self.height, self.width)
        if pixels.dtype != torch.uint8 or tuple(pixels.shape[1:]) != wanted:
            got = f"{pixels.dtype}, {tuple(pixels.shape)}"
            raise InputError("pixels", expected=f"uint8, (B, {wanted[0]}, {wanted[1]}, {wanted[2]})", got=got)
        mean, std = (torch.tensor(v, dtype=torch.float32, device=pixels.device) for v in (self.mean, self.std))
        return pixels.float().div_(255).sub_(mean[:, None, None]).div_(std[:, None, None])  # one buffer, not four

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, card: Mapping[str, Any]) -> Self:
        """The spec that `to_json` wrote; a missing or unknown key is an error."""
        known = {field.name for field in fields(cls)}
        if not isinstance(card, Mapping) or set(card) != known:
            got = ", ".join(map(str, card)) if isinstance(card, Mapping) else type(card).__name__
            raise InputError("input spec", expected=f"the keys {', '.join(sorted(known))}", got=got)
        try:
            mean, std = (tuple(float(v) for v in card[key]) for key in ("mean", "std"))
        except (TypeError, ValueError):
            raise InputError(
                "mean, std", expected="lists of numbers", got=f"{card['mean']!r}, {card['std']!r}"
            ) from None
        return cls(card["height"], card["width"], card["channels"], mean, std)
