"""scikit-learn's digits: 1,797 handwritten digits of 8 x 8 pixels, always there.

A value v of 0 to 16 becomes the pixel `round(255 v / 16)`. The publisher has no splits; `train` and `test` here are
stratified halves drawn once and for all with seed 0.
"""

from pathlib import Path

import numpy as np

from howsure.data.images import ArrayImages, ImageSet
from howsure.data.sets.published import PublishedSet
from howsure.data.splitting import split


def _read(_folder: Path, splits: tuple[str, ...]) -> ImageSet:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    ids = tuple(f"digits/{i:04d}" for i in range(len(pixels)))
    everything = ArrayImages("digits", ids, tuple(str(digit) for digit in bunch.target), pixels)
    if len(splits) > 1:
        return everything
    halves = split(everything, {"train": 0.5, "test": 0.5}, seed=0)
    return halves[("train", "test").index(splits[0])].renamed("digits")


DIGITS = PublishedSet(
    name="digits", splits=("train", "test"), folder="", origin="UCI, as shipped with scikit-learn", read=_read
)
