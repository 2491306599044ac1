"""N-digit MNIST: numbers of two or three digits in a row, as hedged instance embeddings use them.

The publisher drew ten index tables into MNIST once, with seed 714; they are drawn again here, bit for bit. Training
digits come from MNIST's training split, test digits from its test split. The label is the number as written, leading
zeros included: `07`. Two ways to part the numbers, each with its own tables:

| split | N = 2: classes x pictures each | N = 3 | |
|---|---|---|---|
| `number-train` | 70 x 1,428 | 700 x 142 | what the bare name means |
| `number-test-seen` | 70 x 142 | 100 x 100 | numbers of `number-train`, other digits |
| `number-test-unseen` | 30 x 333 | 100 x 100 | numbers that `number-train` lacks |
| `instance-train` | 100 x 1,000 | 1,000 x 100 | every number |
| `instance-test` | 100 x 100 | 1,000 x 10 | every number, other digits |

For three digits the publisher kept 100 seen and 100 unseen test classes; its paper speaks of 700 and 300.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from PIL import Image

from howsure.data.images import ArrayImages, ImageSet
from howsure.data.sets.idx import SIDE, idx_labels, idx_pixels
from howsure.data.sets.published import PublishedSet
from howsure.errors import InputError

SEED = 714
SHARE_SEEN = 70  # percent of the numbers
PICTURES = {"train": 100_000, "test": 10_000}
LEAST = 100  # pictures a class in the tables of the gap "number"
SPLITS = ("number-train", "number-test-seen", "number-test-unseen", "instance-train", "instance-test")


@final
@dataclass(frozen=True, eq=False)
class DigitRows(ImageSet):
    """Pictures of several digits in a row, composed when asked for."""

    digits: np.ndarray  # (M, 28, 28) uint8, shared by all pictures
    rows: np.ndarray  # (N, digits in a picture), indices into `digits`

    def image(self, i: int) -> Image.Image:
        return Image.fromarray(self.digits[self.rows[i]].transpose(1, 0, 2).reshape(SIDE, -1))

    def _rows(self, indices: np.ndarray) -> dict[str, Any]:
        return {"rows": self.rows[indices]}


@dataclass(frozen=True, eq=False)
class Table:
    """One published table: which numbers, and of which digits each of their pictures is made."""

    source: str  # the split of MNIST
    numbers: np.ndarray  # (classes,)
    digits: np.ndarray  # (classes, pictures a class, N), indices into that split


def index_tables(train: np.ndarray, test: np.ndarray, *, digits: int, gap: str) -> dict[str, Table]:
    """The tables of one gap, "number" or "instance", from the labels of MNIST's splits. One stream draws them all."""
    rng = np.random.RandomState(SEED)
    positions = {
        source: [np.flatnonzero(labels == digit) for digit in range(10)]
        for source, labels in (("train", train), ("test", test))
    }
    everything = np.arange(10**digits)
    if gap == "instance":
        plan = [("train", "train", everything), ("test", "test", everything)]
    else:
        seen = rng.choice(everything, SHARE_SEEN * len(everything) // 100, replace=False)
        unseen = np.array(python2_set_order(np.setdiff1d(everything, seen).tolist()))
        plan = [("train", "train", seen), ("test-seen", "test", seen), ("test-unseen", "test", unseen)]
    made = {}
    for part, source, numbers in plan:
        each = PICTURES[source] // len(numbers)
        if gap == "number" and each < LEAST:
            each, numbers = LEAST, rng.choice(numbers, PICTURES[source] // LEAST, replace=False)
        rows = [
            [rng.choice(positions[source][int(digit)], each, replace=False) for digit in f"{number:0{digits}d}"]
            for number in numbers
        ]
        made[f"{gap}-{part}"] = Table(source, numbers, np.array(rows).transpose(0, 2, 1))
    return made


def python2_set_order(values: Sequence[int]) -> list[int]:
    """The order in which CPython 2.7 iterates over a set of these small whole numbers, added one by one.

    The publisher listed the unseen numbers that way, and what is drawn for them depends on it.

    >>> python2_set_order([1, 8, 9, 17])
    [8, 1, 17, 9]
    """
    slots: list[int | None] = [None] * 8
    for used, value in enumerate(values, start=1):
        _put(slots, value)
        if 3 * used >= 2 * len(slots):
            kept, size = [kept for kept in slots if kept is not None], 8
            while size <= 4 * used:
                size *= 2
            slots = [None] * size
            for old in kept:
                _put(slots, old)
    return [value for value in slots if value is not None]


def _put(slots: list[int | None], value: int) -> None:
    probe, rest = value, value
    while slots[probe % len(slots)] is not None:
        probe, rest = 5 * probe + rest + 1, rest >> 5
    slots[probe % len(slots)] = value


def corrupted(
    images: ImageSet, *, occlusion_prob: float, sides: tuple[int, int] = (0, SIDE), seed: int = 0
) -> ArrayImages:
    """The pictures in memory, every digit occluded with a probability; see `occlude`. Names and labels stay."""
    pictures = [np.asarray(images.image(i)) for i in range(len(images))]
    shapes = {picture.shape for picture in pictures}
    if len(shapes) != 1:
        raise InputError(images.name, expected="pictures of one size", got=f"{len(shapes)} sizes")
    rng = np.random.default_rng(seed)
    hidden = occlude(np.stack(pictures), occlusion_prob=occlusion_prob, sides=sides, rng=rng)
    return ArrayImages(f"{images.name} (corrupted)", images.ids, images.labels, hidden)


def occlude(
    pixels: np.ndarray, *, occlusion_prob: float, sides: tuple[int, int], rng: np.random.Generator
) -> np.ndarray:
    """A copy of pictures, (N, 28, 28 n) uint8, in which a black square hides a part of some digits.

    Each digit by itself, with probability `occlusion_prob`: a side, uniform from the least to the largest of `sides`,
    and a position, uniform among those inside the digit. The paper trains with probability 0.2 and tests with 0 (clean)
    and 1 (corrupt), sides 0 to 28; its severity is not known for certain, so `sides` are yours to vary.

    >>> white = np.full((1, 28, 56), 255, np.uint8)
    >>> bool((occlude(white, occlusion_prob=0, sides=(0, 28), rng=np.random.default_rng(0)) == white).all())
    True
    """
    if pixels.ndim != 3 or pixels.shape[1] != SIDE or pixels.shape[2] % SIDE:
        raise InputError("pictures", expected=f"grey digits, {SIDE} high, {SIDE} wide each", got=f"{pixels.shape}")
    if not 0 <= occlusion_prob <= 1:
        raise InputError("occlusion_prob", expected="a probability", got=repr(occlusion_prob))
    least, most = sides
    if not (least in range(SIDE + 1) and most in range(least, SIDE + 1)):
        raise InputError("sides", expected=f"two whole numbers from 0 to {SIDE}, the least first", got=repr(sides))
    count = (len(pixels), pixels.shape[2] // SIDE)
    side = rng.integers(least, most + 1, size=count) * (rng.random(count) < occlusion_prob)
    top, left = (rng.integers(SIDE - side + 1) for _ in range(2))
    across = np.arange(SIDE)
    rows, columns = (
        (across >= start[..., None]) & (across < (start + side)[..., None]) for start in (top, left)
    )  # (N, n, 28) each
    # (N, 28, n, 28): a pixel is hidden if both its row and its column are
    hidden = rows.transpose(0, 2, 1)[..., None] & columns[:, None]
    return np.where(hidden.reshape(pixels.shape), np.uint8(0), pixels)


def _read(folder: Path, splits: tuple[str, ...], *, digits: int) -> DigitRows:
    codes = {source: idx_labels(folder, source) for source in ("train", "test")}
    gaps = sorted({split.partition("-")[0] for split in splits})
    tables: dict[str, Table] = {}
    for gap in gaps:
        tables |= index_tables(codes["train"], codes["test"], digits=digits, gap=gap)
    sources = sorted({tables[split].source for split in splits})
    pixels = [idx_pixels(folder, source) for source in sources]
    first = dict(zip(sources, np.cumsum([0, *map(len, pixels)]), strict=False))  # the first row of each source
    ids: list[str] = []
    labels: list[str] = []
    rows = []
    for split in splits:
        table = tables[split]
        rows.append(table.digits.reshape(-1, digits) + first[table.source])
        labels.extend(f"{number:0{digits}d}" for number in np.repeat(table.numbers, table.digits.shape[1]))
        ids.extend(f"n-digit-mnist-{digits}/{split}/{i:06d}" for i in range(len(rows[-1])))
    name = f"n-digit-mnist-{digits}"
    return DigitRows(name, tuple(ids), tuple(labels), np.concatenate(pixels), np.concatenate(rows))


N_DIGIT_MNIST = tuple(
    PublishedSet(
        name=f"n-digit-mnist-{digits}",
        splits=SPLITS,
        folder="MNIST/raw",
        origin="MNIST, yann.lecun.com/exdb/mnist (four *-ubyte.gz files); the tables are drawn from it",
        read=partial(_read, digits=digits),
    )
    for digits in (2, 3)
)
