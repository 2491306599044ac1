"""Caltech-UCSD Birds 200-2011, by its own lists."""

from pathlib import Path

from howsure.data.images import FileImages
from howsure.data.sets.published import PublishedSet
from howsure.errors import DataError

_IS_TRAINING = {"train": "1", "test": "0"}


def _read(folder: Path, splits: tuple[str, ...]) -> FileImages:
    files, label_of, part_of = (
        _numbered(folder / name) for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt")
    )
    classes = _numbered(folder / "classes.txt")
    if not files.keys() == label_of.keys() == part_of.keys() or not set(label_of.values()) <= classes.keys():
        raise DataError(str(folder), expected="lists that agree on images and classes", got="numbers missing in one")
    parts = {_IS_TRAINING[split] for split in splits}
    rows = [number for number in files if part_of[number] in parts]
    return FileImages(
        "cub",
        tuple(f"cub/{files[number]}" for number in rows),
        tuple(classes[label_of[number]] for number in rows),
        tuple(folder / "images" / files[number] for number in rows),
    )


def _numbered(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        number, _, value = text.strip().partition(" ")
        if not value:
            raise DataError(f"{path}, line {line}", expected="a number and a value", got=repr(text))
        found[number] = value
    return found


CUB = PublishedSet(
    name="cub",
    splits=("train", "test"),
    folder="CUB_200_2011",
    origin="Caltech, www.vision.caltech.edu/datasets/cub_200_2011 (images and the lists beside them)",
    read=_read,
)
