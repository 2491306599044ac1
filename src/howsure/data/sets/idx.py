"""MNIST and Fashion-MNIST: gzipped IDX files, checked against the published MD5."""

import gzip
from functools import partial
from pathlib import Path

import numpy as np

from howsure.data.images import ArrayImages
from howsure.data.sets.published import PublishedSet, official_bytes

SIDE = 28
_PREFIX = {"train": "train", "test": "t10k"}
_PARTS = {"images": ("idx3", 16), "labels": ("idx1", 8)}  # format, and bytes of header; the checksum vouches for it

_MNIST_MD5 = {
    "train-images": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels": "ec29112dd5afa0611ce80d1b7f02629c",
}
_FASHION_MD5 = {
    "train-images": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels": "bb300cfdad3c16e7a12a480ee83cd310",
}
_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def _read(
    folder: Path, splits: tuple[str, ...], *, name: str, md5: dict[str, str], classes: tuple[str, ...]
) -> ArrayImages:
    arrays: list[np.ndarray] = []
    labels: list[str] = []
    ids: list[str] = []
    for split in splits:
        arrays.append(idx_pixels(folder, split, md5))
        labels.extend(classes[code] for code in idx_labels(folder, split, md5))
        ids.extend(f"{name}/{split}/{i:05d}" for i in range(len(arrays[-1])))
    return ArrayImages(name, tuple(ids), tuple(labels), np.concatenate(arrays))


def idx_pixels(folder: Path, split: str, md5: dict[str, str] = _MNIST_MD5) -> np.ndarray:
    """The pictures of "train" or "test", uint8 (N, 28, 28)."""
    return _content(folder, split, "images", md5).reshape(-1, SIDE, SIDE)


def idx_labels(folder: Path, split: str, md5: dict[str, str] = _MNIST_MD5) -> np.ndarray:
    """The number of each one's class, uint8 (N,)."""
    return _content(folder, split, "labels", md5)


def _content(folder: Path, split: str, part: str, md5: dict[str, str]) -> np.ndarray:
    name, (form, header) = f"{_PREFIX[split]}-{part}", _PARTS[part]
    content = gzip.decompress(official_bytes(folder / f"{name}-{form}-ubyte.gz", md5[name]))
    return np.frombuffer(content, np.uint8, offset=header)


MNIST = PublishedSet(
    name="mnist",
    splits=("train", "test"),
    folder="MNIST/raw",
    origin="LeCun, Cortes and Burges, yann.lecun.com/exdb/mnist (four *-ubyte.gz files)",
    read=partial(_read, name="mnist", md5=_MNIST_MD5, classes=_DIGITS),
)
FASHION_MNIST = PublishedSet(
    name="fashion-mnist",
    splits=("train", "test"),
    folder="FashionMNIST/raw",
    origin="Zalando Research, github.com/zalandoresearch/fashion-mnist (four *-ubyte.gz files)",
    read=partial(_read, name="fashion-mnist", md5=_FASHION_MD5, classes=_CLOTHES),
)
