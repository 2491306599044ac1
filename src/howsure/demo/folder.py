"""The directory of a demo, and the pictures in it."""

from __future__ import annotations

import shutil
from itertools import cycle, product
from pathlib import Path

import numpy as np
from PIL import Image

from howsure import data
from howsure.data import ImageSet
from howsure.errors import DataError

__all__ = ["UNKNOWN", "corruption_of", "prepare", "write_pictures"]

UNKNOWN = ("8", "9")
KNOWN_SHARES = {"gallery": 0.4, "calibration/known": 0.3, "known": 0.3}  # the gallery is also what is trained on
UNKNOWN_SHARES = {"calibration/unknown": 0.5, "unknown": 0.5}
CORRUPTIONS = ("noise", "blur", "occlusion")  # 8 x 8 pixels are too few for the others
SEVERITIES = (1, 2, 3, 4, 5)

_MARKER = ".howsure-demo"
_MADE = ("pictures", "model", "gallery", "report.html")


def prepare(out: Path) -> None:
    """An empty directory for a demo. What an earlier one made is removed; a directory of anything else is refused."""
    try:
        if out.exists() and not (out.is_dir() and ((out / _MARKER).exists() or not any(out.iterdir()))):
            raise DataError(
                str(out),
                expected="a new or empty directory, or one made by an earlier demo",
                got="something else",
                fix="give another name with --out; nothing was changed",
            )
        out.mkdir(parents=True, exist_ok=True)
        # Before anything else, so that an interrupted run is still known as a demo's.
        (out / _MARKER).write_text("Made by howsure demo. The next run replaces model, gallery, pictures and report.\n")
        for name in _MADE:
            _remove(out / name)
    except OSError as error:
        got = str(error.strerror).lower()
        raise DataError(str(out), expected="a directory that can be written", got=got, fix="use --out") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_pictures(folder: Path, *, seed: int) -> None:
    """Digits as PNG files: gallery, calibration/known, calibration/unknown, known, corrupted and unknown."""
    known, unknown = data.hold_out_classes(data.load("digits:all"), UNKNOWN)
    parts = dict(zip(KNOWN_SHARES, data.split(known, KNOWN_SHARES, seed=seed), strict=True))
    parts |= dict(zip(UNKNOWN_SHARES, data.split(unknown, UNKNOWN_SHARES, seed=seed), strict=True))
    for part, images in parts.items():
        for row in range(len(images)):
            _save(images.image(row), folder / part, images, row)
    rng = np.random.default_rng(seed)
    known = parts["known"]
    for row, (severity, name) in zip(range(len(known)), cycle(product(SEVERITIES, CORRUPTIONS)), strict=False):
        worse = data.corrupt(known.image(row), name, severity=severity, rng=rng)
        _save(worse, folder / "corrupted", known, row, suffix=f"-{name}-{severity}")


def corruption_of(path: Path) -> str:
    """How a picture was corrupted, from its name.

    >>> corruption_of(Path("corrupted/3/0123-blur-4.png")), corruption_of(Path("known/3/0123.png"))
    ('blur 4', '')
    """
    return path.stem.partition("-")[2].replace("-", " ")


def _save(image: Image.Image, folder: Path, images: ImageSet, row: int, *, suffix: str = "") -> None:
    target = folder / str(images.labels[row])
    target.mkdir(parents=True, exist_ok=True)
    image.save(target / f"{Path(images.ids[row]).name}{suffix}.png")
