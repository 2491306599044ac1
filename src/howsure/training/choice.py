"""The recipe for pictures that come without one: by the name of a published set, else by a look at them."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from PIL import Image

from howsure.data import ImageSet
from howsure.data.sets import SETS
from howsure.errors import DataError
from howsure.recipe import Recipe, read_recipe, recipe_for

PHOTOGRAPHS = "pretrained"  # the recipe for them
SAMPLE = 24  # pictures to look at
TINY = 48  # pixels of a shorter side, up to which small networks see as much
GREY = 8  # levels by which the channels of a grey picture may differ after lossy storage


def fitting_recipe(source: str, images: ImageSet) -> Recipe:
    """The recipe for `images`, which came from `source`.

    A published set has its own, or the default one. Of anything else a sample decides: photographs get a pretrained
    network, grey or tiny pictures a small one that is trained from scratch.
    """
    published = source.partition(":")[0].partition("@")[0] in SETS
    return read_recipe(PHOTOGRAPHS) if not published and are_photographs(images) else recipe_for(source)


def are_photographs(images: ImageSet) -> bool:
    """Whether most of a sample have colour and a shorter side of more than 48 pixels."""
    votes: list[bool] = []
    for row in np.unique(np.linspace(0, len(images) - 1, SAMPLE).astype(int)):
        with suppress(DataError):  # training reports it
            votes.append(_is_photograph(images.image(int(row))))
    return 2 * sum(votes) > len(votes)


def _is_photograph(image: Image.Image) -> bool:
    if min(image.size) <= TINY or image.mode != "RGB":
        return False
    small = np.asarray(image.resize((TINY, TINY), Image.Resampling.BOX), dtype=int)  # (H, W, 3)
    return bool(np.ptp(small, axis=-1).max() > GREY)
