"""The papers' image sets, by name, in their publishers' layouts below `$HOWSURE_DATA`.

A bare name means the training split of a set that has one, so that test pictures are never trained on by accident;
`NAME:all` joins the splits. A new set is one file here and one line in `SETS`.
"""

import os
from pathlib import Path

from howsure.data.images import ImageSet
from howsure.data.sets.cifar10 import CIFAR10
from howsure.data.sets.cub import CUB
from howsure.data.sets.digits import DIGITS
from howsure.data.sets.flickr8k import FLICKR8K
from howsure.data.sets.idx import FASHION_MNIST, MNIST
from howsure.data.sets.in_folders import LFW, MARKET1501, OMNIGLOT, SVHN
from howsure.data.sets.n_digit import N_DIGIT_MNIST
from howsure.data.sets.published import PublishedSet
from howsure.errors import DataError

__all__ = ["SETS", "load_set"]

_KNOWN = (DIGITS, MNIST, *N_DIGIT_MNIST, FASHION_MNIST, CIFAR10, SVHN, OMNIGLOT, LFW, CUB, FLICKR8K, MARKET1501)
SETS = {known.name: known for known in _KNOWN}


def load_set(name: str, split: str | None = None, *, root: Path | None = None) -> ImageSet:
    """The pictures of a known set; `root` stands in for `$HOWSURE_DATA`.

    >>> load_set("digits", "test").name
    'digits:test'
    """
    known = SETS[name]
    splits = _splits(known, split)
    label = f"{name}:{split or splits[0]}" if splits else name
    top = root or os.environ.get("HOWSURE_DATA")
    folder = Path(top or "$HOWSURE_DATA") / known.folder if known.folder else Path()
    if known.folder and not top:
        raise _missing(known, got="HOWSURE_DATA is not set", folder=folder)
    try:
        images = known.read(folder, splits)
    except OSError as error:
        raise _missing(known, got=f"{str(error.strerror).lower()} ({error.filename})", folder=folder) from error
    if not images.ids:
        raise _missing(known, got="no picture in it", folder=folder)
    return images.renamed(label)


def _splits(known: PublishedSet, split: str | None) -> tuple[str, ...]:
    if split == "all":
        return known.splits
    if split is None:
        return known.splits[:1]
    if split not in known.splits:
        choices = ", ".join(f"{known.name}:{choice}" for choice in (*known.splits, "all"))
        raise DataError(f"{known.name}:{split}", expected=f"{choices} or {known.name}", got=f"the split {split!r}")
    return (split,)


def _missing(known: PublishedSet, *, got: str, folder: Path) -> DataError:
    fix = (
        f"get it from {known.origin}, put it under $HOWSURE_DATA/{known.folder} and let HOWSURE_DATA name that root; "
        f"for a folder of your own write ./{known.name}"
    )
    return DataError(f"the set {known.name}", expected=f"its files in {folder}", got=got, fix=fix)
