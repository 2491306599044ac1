"""One set of pictures becomes several, without overlap."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from howsure.data.images import ImageSet
from howsure.data.suggest import did_you_mean, listed
from howsure.errors import DataError, InputError, TrainingError

AT_MOST = 5_000  # pictures that validate


def split(images: ImageSet, shares: Mapping[str, float] | Sequence[float], *, seed: int) -> list[ImageSet]:
    """Random parts, stratified by label: disjoint, together everything, each in the original order.

    Part p gets `floor(share_p n_c)` or one more of the n_c pictures of class c. Who gets the one more is decided by
    what each part is short of so far, so that classes of one or two pictures spread over the parts as well. Pictures
    without a label count as a class of their own. Named shares name the parts.

    >>> import numpy as np
    >>> from howsure.data import ArrayImages
    >>> ids = tuple("abcdefgh")
    >>> images = ArrayImages("tiny", ids, ("x",) * 4 + ("y",) * 4, np.zeros((8, 2, 2), np.uint8))
    >>> [(part.name, part.labels) for part in split(images, {"fit": 0.75, "check": 0.25}, seed=0)]
    [('tiny[fit]', ('x', 'x', 'x', 'y', 'y', 'y')), ('tiny[check]', ('x', 'y'))]
    """
    names = [str(key) for key in shares] if isinstance(shares, Mapping) else [str(i) for i in range(len(shares))]
    wanted = np.asarray(list(shares.values() if isinstance(shares, Mapping) else shares), dtype=float)
    if not (wanted.size and (wanted > 0).all() and abs(wanted.sum() - 1) < 1e-6):
        raise InputError("shares", expected="positive numbers that add up to 1", got=str(wanted.tolist()))
    part_of = _parts(images.labels, wanted / wanted.sum(), rng=np.random.default_rng(seed))
    indices = [np.flatnonzero(part_of == part) for part in range(len(wanted))]
    for name, rows in zip(names, indices, strict=True):
        if not rows.size:
            fix = "use more pictures or other shares"
            raise DataError(
                f"part {name} of {images.name}", expected="a picture", got=f"none of {len(images)}", fix=fix
            )
    return [images.subset(rows).renamed(f"{images.name}[{name}]") for name, rows in zip(names, indices, strict=True)]


def _parts(labels: Sequence[str | None], shares: np.ndarray, *, rng: np.random.Generator) -> np.ndarray:
    part_of = np.empty(len(labels), dtype=int)
    short = np.zeros(len(shares))  # pictures that each part is owed by the classes already dealt
    of_class: dict[tuple[bool, str], list[int]] = {}
    for i, label in enumerate(labels):
        of_class.setdefault((label is None, label or ""), []).append(i)
    for _, rows in sorted(of_class.items()):
        due = shares * len(rows)
        counts = np.floor(due + 1e-9).astype(int)
        # A part that is due a whole number gets exactly that, so it sorts behind all others.
        debt = np.where(due - counts > 1e-9, short + due - counts, -np.inf)
        counts[np.argsort(-debt, kind="stable")[: len(rows) - counts.sum()]] += 1
        short += due - counts
        part_of[rng.permutation(rows)] = np.repeat(np.arange(len(shares)), counts)
    return part_of


def hold_out_classes(images: ImageSet, classes: Collection[str]) -> tuple[ImageSet, ImageSet]:
    """The pictures without these classes, and only those of these classes."""
    if isinstance(classes, str):
        raise InputError("classes", expected="a collection of labels", got=repr(classes), fix=f"write [{classes!r}]")
    for label in classes:
        if label not in images.classes:
            known = listed(images.classes) or "none: the pictures have no labels"
            fix = did_you_mean(str(label), images.classes)
            raise DataError(f"labels of {images.name}", expected=f"one of {known}", got=repr(label), fix=fix)
    held = np.array([label in classes for label in images.labels], dtype=bool)
    return images.subset(~held), images.subset(held)


def validation_split(images: ImageSet, *, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and for validation.

    Where a typical class can spare two pictures, a share of every class is held out. Where classes are small, a share
    of the classes is held out whole, which is also the harder and more honest test.
    """
    labels = np.array(["" if label is None else label for label in images.labels], dtype=object)
    counts = Counter(labels.tolist())
    if "" in counts:
        raise TrainingError(
            "training", expected="a label for every picture", got=f"{counts['']} without", fix="one folder a class"
        )
    pairable = [label for label, count in sorted(counts.items()) if count >= 2]
    if len(pairable) < 2:
        raise TrainingError(
            f"training on {images.name}",
            expected="two classes or more with two pictures or more each",
            got=f"{len(pairable)} such of {len(counts)} classes",
            fix="add pictures, or check that each class has its own folder",
        )
    rng = np.random.default_rng([seed, 1])
    if np.median([counts[label] for label in pairable]) * share >= 2:
        parts = [_some(np.flatnonzero(labels == label), share, rng) for label in sorted(counts)]
        held = np.concatenate(parts)
    elif len(pairable) >= 10:
        chosen = sorted(_some(np.array(pairable, dtype=object), share, rng, least=2), key=lambda label: counts[label])
        whole = np.cumsum([counts[label] for label in chosen]) <= AT_MOST
        held = np.flatnonzero(np.isin(labels, np.array(chosen, dtype=object)[whole]))
    else:
        parts = [
            _some(np.flatnonzero(labels == label), share, rng, least=2) for label in pairable if counts[label] >= 4
        ]
        held = np.concatenate([*parts, np.empty(0, int)])
    held = np.sort(held if len(held) <= AT_MOST else rng.choice(held, AT_MOST, replace=False)).astype(int)
    kept = Counter(labels[held].tolist())
    if len(kept) < 2 or max(kept.values()) < 2:
        raise TrainingError(
            f"training on {images.name}",
            expected="enough pictures to hold some out: four or more in two classes, or ten classes of two",
            got=f"{len(images)} pictures in {len(counts)} classes",
            fix="add pictures",
        )
    return np.setdiff1d(np.arange(len(images)), held), held


def _some(items: np.ndarray, share: float, rng: np.random.Generator, *, least: int = 0) -> np.ndarray:
    return rng.choice(items, max(least, round(share * len(items))), replace=False)
