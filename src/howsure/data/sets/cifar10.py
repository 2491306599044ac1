"""CIFAR-10: the official binary version, checked against the published MD5."""

from pathlib import Path

import numpy as np

from howsure.data.images import ArrayImages
from howsure.data.sets.published import PublishedSet, official_bytes
from howsure.errors import DataError

_BATCHES = {
    "train": {
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    },
    "test": {"test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d"},
}
_ROW = 1 + 3 * 32 * 32  # a label, then the red, green and blue plane


def _read(folder: Path, splits: tuple[str, ...]) -> ArrayImages:
    names_file = folder / "batches.meta.txt"
    names = names_file.read_text(encoding="utf-8").split()
    if len(names) != 10:
        raise DataError(str(names_file), expected="10 class names", got=f"{len(names)}")
    arrays: list[np.ndarray] = []
    labels: list[str] = []
    ids: list[str] = []
    for split in splits:
        parts = [official_bytes(folder / file, md5) for file, md5 in _BATCHES[split].items()]
        rows = np.frombuffer(b"".join(parts), np.uint8).reshape(-1, _ROW)
        arrays.append(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))  # (N, C, H, W) -> (N, H, W, C)
        labels.extend(names[code] for code in rows[:, 0])
        ids.extend(f"cifar10/{split}/{i:05d}" for i in range(len(rows)))
    return ArrayImages("cifar10", tuple(ids), tuple(labels), np.ascontiguousarray(np.concatenate(arrays)))


CIFAR10 = PublishedSet(
    name="cifar10",
    splits=("train", "test"),
    folder="cifar-10-batches-bin",
    origin="Krizhevsky, www.cs.toronto.edu/~kriz/cifar.html (the binary version)",
    read=_read,
)
