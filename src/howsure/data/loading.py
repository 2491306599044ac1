"""The door: from what a person types to an `ImageSet`."""

import os
import re
from pathlib import Path
from typing import Any

from howsure.data.folders import load_folder
from howsure.data.images import FileImages, ImageSet
from howsure.data.sets import SETS, load_set
from howsure.data.splitting import hold_out_classes
from howsure.data.suggest import did_you_mean
from howsure.data.tables import TABLES, load_table
from howsure.errors import DataError

_SET = re.compile(r"(?P<name>[\w-]+)(?::(?P<split>[\w-]+))?")


def load(source: str | Path, *, root: Path | None = None) -> ImageSet:
    """Pictures from a folder, a table, a single file, or a published set.

    | source | pictures |
    |---|---|
    | `photos/` | all below it; the label is the first folder on the way |
    | `list.csv`, `.tsv`, `.jsonl` | those named in the column `path`, with `label` and `id` if given |
    | `new.jpg` | this one |
    | `digits`, `cifar10:test`, `cub:all` | a published set below `root`, else `$HOWSURE_DATA`; bare = for training |
    | any of these with `@8,9` or `@!8,9` | only the labels 8 and 9, or all but them |

    The name of a set goes before a folder of the same name; `./digits` is the folder.

    >>> load("digits:test@8,9").classes
    ('8', '9')
    """
    text = os.fspath(source)
    if isinstance(source, Path) and os.path.lexists(source):
        return _load_path(source)
    if (images := _load_plain(text, root=root)) is not None:
        return images
    plain, at, labels = text.rpartition("@")
    if at and (images := _load_plain(plain, root=root)) is not None:
        return _filtered(images, labels).renamed(f"{images.name}@{labels}")
    raise _unknown(text)


def loaded(items: Any) -> Any:
    """The pictures that a path or a name stands for; anything else as it is."""
    return load(items) if isinstance(items, (str, Path)) else items


def _load_plain(text: str, *, root: Path | None) -> ImageSet | None:
    named = _SET.fullmatch(text)
    if named and named["name"] in SETS:
        return load_set(named["name"], named["split"], root=root)
    # An empty text would be the current folder; a name with a null byte cannot be asked about.
    return _load_path(Path(text)) if text and "\0" not in text and os.path.lexists(text) else None


def _load_path(path: Path) -> ImageSet:
    if path.is_dir():
        return load_folder(path)
    if path.suffix.lower() in TABLES:
        return load_table(path)
    return FileImages(path.name, (path.as_posix(),), (None,), (path,))


def _filtered(images: ImageSet, labels: str) -> ImageSet:
    names = [name.strip() for name in labels.removeprefix("!").split(",")]
    without, only = hold_out_classes(images, names)
    chosen = without if labels.startswith("!") else only
    if not chosen.ids:
        raise DataError(f"{images.name}@{labels}", expected="some pictures", got="every label left out")
    return chosen


def _unknown(text: str) -> DataError:
    word = text.partition("@")[0].partition(":")[0]
    return DataError(
        text or "source",
        expected=f"a folder, a table ({', '.join(TABLES)}), a picture, or one of the sets {', '.join(SETS)}",
        got="nothing of that name",
        fix=did_you_mean(word, list(SETS)) or did_you_mean(Path(text).name, _beside(Path(text))),
    )


def _beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):  # no such folder: then there is nothing to suggest
        return []
