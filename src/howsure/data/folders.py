"""A folder of pictures, or of one folder per label."""

import os
from collections.abc import Callable
from pathlib import Path

from howsure.data.images import FileImages
from howsure.data.suggest import listed
from howsure.errors import DataError

# .heic and .heif are here although Pillow cannot read them: they are reported as skipped, not passed over in silence.
_NAMES = "jpg jpeg jpe jfif png webp gif bmp tif tiff ppm pgm pbm pnm avif jp2 ico heic heif"
_SPLITS = frozenset({"train", "training", "val", "valid", "validation", "dev", "test", "testing"})
EXTENSIONS = frozenset(f".{name}" for name in _NAMES.split())


def load_folder(root: Path) -> FileImages:
    """Every picture below `root`; its label is the first folder on the way to it, or None directly in `root`.

    Links are followed, but not back into a folder that is being read. Hidden files and files without a picture's
    extension are passed over. The order is that of the sorted paths. Ids are `root-name/relative/path`. A folder of
    splits, `train/LABEL`, `val/LABEL`, is an error: their names are no labels.
    """
    name = readable(Path(os.path.abspath(root)).name)  # noqa: PTH100 (a link keeps its own name)
    images = images_below(root, name=name, label=first_folder)
    if not images.ids:
        raise DataError(
            str(root),
            expected=f"pictures ({listed(sorted(EXTENSIONS), 30)}) in it or in folders below it",
            got="none",
            fix="lay them out as FOLDER/LABEL/PICTURE, or all in one folder if they have no labels",
        )
    if splits := _splits([file.relative_to(root) for file in images.files]):
        raise DataError(
            str(root),
            expected="one folder a label",
            got=f"a folder a split, {listed([split.name for split in splits])}, with the labels below",
            fix=f"give one of them: {' or '.join(str(root / split) for split in splits)}",
        )
    return images


def _splits(files: list[Path]) -> list[Path]:
    """The folders of a data set's splits, where every file is SPLIT/LABEL/FILE, or all of that in one folder more."""
    for depth in (1, 2):
        heads = {Path(*file.parts[:depth]) if len(file.parts) > depth + 1 else Path() for file in files}
        one_above = len({head.parent for head in heads}) == 1
        if len(heads) > 1 and one_above and all(head.name.lower() in _SPLITS for head in heads):
            return sorted(heads)
    return []


def first_folder(relative: Path) -> str | None:
    """The label of a picture in a folder of folders.

    >>> first_folder(Path("cat/indoors/1.jpg")), first_folder(Path("1.jpg"))
    ('cat', None)
    """
    return relative.parts[0] if len(relative.parts) > 1 else None


def images_below(root: Path, *, name: str, label: Callable[[Path], str | None]) -> FileImages:
    """All pictures below `root`, possibly none, with labels made from their relative paths."""
    files = sorted(_files_below(root), key=lambda file: file.parts)
    relative = [Path(readable(str(file.relative_to(root)))) for file in files]
    ids = tuple(f"{name}/{path.as_posix()}" for path in relative)
    return FileImages(name, ids, tuple(label(path) for path in relative), tuple(files))


def readable(name: str) -> str:
    r"""A file name as text that can be stored; bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _files_below(root: Path) -> list[Path]:
    found: list[Path] = []
    waiting = [(root, frozenset({_identity(root)}))]
    while waiting:
        folder, above = waiting.pop()
        for entry in _entries(folder):
            path = folder / entry.name
            if entry.name.startswith("."):
                continue
            if os.path.isdir(path):  # noqa: PTH112 (answers no, where a Path would raise on a link to itself)
                if (identity := _identity(path)) not in above:
                    waiting.append((path, above | {identity}))
            elif path.suffix.lower() in EXTENSIONS:
                found.append(path)
    return found


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        raise DataError(str(folder), expected="a folder that can be read", got="permission denied") from None
