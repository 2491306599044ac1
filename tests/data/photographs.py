"""Parts of the two photographs that come with scikit-learn."""

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from howsure.data import ArrayImages


def parts(count: int, *, side: int = 120, seed: int = 0) -> ArrayImages:
    """Square parts of 240 to 420 pixels at random places, brought to one size, every other two mirrored."""
    rng = np.random.default_rng(seed)
    photographs = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    found = []
    for row in range(count):
        photograph, length = photographs[row % 2], int(rng.integers(240, 421))
        left, top = (int(rng.integers(extent - length + 1)) for extent in photograph.size)
        part = photograph.crop((left, top, left + length, top + length)).resize((side, side), Image.Resampling.BOX)
        found.append(np.asarray(part)[:, :: (-1) ** (row // 2)])
    return ArrayImages("parts", tuple(map(str, range(count))), (None,) * count, np.stack(found))
