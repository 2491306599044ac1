"""Near-duplicates: copies that were made worse are found, and what is new hardly ever is taken for one."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import nn

from howsure.data import ImageSet, InputSpec, load
from howsure.decide.near_duplicates import FALSE_ALARMS, nearest
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Gaussian, Point, cat

ROOT = Path(os.environ.get("HOWSURE_DATA", "unset"))
Labels = list[str | None]


def drawn(who: np.ndarray, dim: int, rng: np.random.Generator) -> tuple[Embedding, Labels]:
    """Items around the centres of their identities."""
    centres = np.random.default_rng(7).normal(size=(1_000, dim))
    x = centres[who] + 0.4 * rng.normal(size=(len(who), dim))
    return Point(torch.from_numpy(x).float()), [str(one) for one in who]


def moved(points: Embedding, by: float, rng: np.random.Generator) -> Embedding:
    return Point(points.mean + by * torch.from_numpy(rng.normal(size=points.mean.shape)).float())


# Who is in the gallery, and who asks.
SETTINGS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "many of each": (np.arange(800) % 40, np.arange(400) % 40),
    "one of each": (np.arange(400), np.arange(400)),
    "one of each, several that ask": (np.arange(150), np.arange(600) % 150),
    "several of each, one that asks": (np.arange(800) % 200, np.arange(200)),
    "unknown ones": (np.arange(600) % 60, 500 + np.arange(400)),
    "few": (np.arange(30) % 10, np.arange(30) % 10),
}


@pytest.mark.parametrize("dim", [2, 6, 32])
@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_new_is_hardly_ever_taken_for_a_copy(setting: str, dim: int) -> None:
    gallery, asking = SETTINGS[setting]
    alarms = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = nearest(*drawn(asking, dim, rng), *drawn(gallery, dim, rng))
        assert not found.equal.any()
        alarms.append(found.near_duplicate.sum())
    assert np.mean(alarms) <= 5 * FALSE_ALARMS


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("copies", [1, 20])
def test_copies_are_found_whatever_their_label(copies: int, labelled: bool) -> None:
    rng = np.random.default_rng(0)
    items, names = drawn(*SETTINGS["many of each"][:1], 16, rng)
    query, labels = drawn(SETTINGS["many of each"][1], 16, rng)
    rows = rng.permutation(len(items))[:copies]
    query = cat([query, moved(items[rows], 0.02, rng), items[rows]])
    labels += 2 * [names[row] if labelled else None for row in rows]
    found = nearest(query, labels, items, names)
    assert np.flatnonzero(found.near_duplicate).tolist() == [*range(400, 400 + 2 * copies)]
    assert np.flatnonzero(found.equal).tolist() == [*range(400 + copies, 400 + 2 * copies)]
    assert found.position[400:].tolist() == [*rows, *rows]


def test_a_copy_is_equal_wherever_the_centre_and_however_the_last_bits_fell() -> None:
    rng = np.random.default_rng(1)
    items, names = drawn(np.arange(300) % 30, 16, rng)
    for scale, shift in ((1.0, 0.0), (1e-6, 0.0), (1e6, 0.0), (1.0, 3.0)):
        there = Point(items.mean * scale + shift)
        rounded = moved(there, 1e-6 * scale, rng)
        assert nearest(rounded, names, there, names).equal.all()
        assert not nearest(moved(there, 1e-3 * scale, rng), names, there, names).equal.any()
    wide = Gaussian(items.mean, torch.rand(300, 1))
    assert nearest(Gaussian(items.mean, torch.rand(300, 1)), names, wide, names).equal.all()


def test_the_nearest_is_that_of_a_full_comparison() -> None:
    rng = np.random.default_rng(2)
    items, names = drawn(np.arange(700) % 50, 8, rng)
    query, labels = drawn(np.arange(600) % 60, 8, rng)
    full = np.linalg.norm(query.mean.double().numpy()[:, None] - items.mean.double().numpy(), axis=2)
    assert nearest(query, labels, items, names).position.tolist() == full.argmin(1).tolist()


def test_where_pictures_come_in_bursts_a_near_one_is_nothing_special() -> None:
    rng = np.random.default_rng(3)
    items, names = drawn(np.arange(400) % 40, 16, rng)
    burst, labels = moved(items[:200], 0.02, rng), names[:200]
    assert nearest(burst, labels, items, names).near_duplicate.all()
    bursts = cat([items, moved(items, 0.02, rng)])
    assert nearest(burst, labels, bursts, names + names).near_duplicate.sum() <= 1


def test_on_a_crowded_circle_different_pictures_are_not_equal() -> None:
    rng = np.random.default_rng(4)

    def on_circle(count: int) -> Embedding:
        angle = rng.integers(0, 5, count) + 0.01 * rng.normal(size=count)
        return Point(torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], 1)).float())

    found = nearest(on_circle(3_000), ["a"] * 3_000, on_circle(3_000), ["a"] * 3_000)
    assert found.equal.mean() < 0.01


def test_as_few_as_there_may_be() -> None:
    one, none = Point(torch.ones(1, 3)), Point(torch.ones(0, 3))
    assert nearest(none, [], one, ["a"]).equal.tolist() == []
    assert nearest(one, ["a"], one, ["b"]).equal.tolist() == [True]
    assert nearest(one, [None], Point(torch.zeros(1, 3)), [None]).near_duplicate.tolist() == [False]


def jpeg(picture: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, "JPEG", quality=60)
    return Image.open(buffer).convert("RGB")


WORSE: dict[str, Callable[[Image.Image], Image.Image]] = {
    "saved again": jpeg,
    "smaller": lambda one: one.resize((round(0.9 * one.width), round(0.9 * one.height)), Image.Resampling.LANCZOS),
    "cropped": lambda one: one.crop((round(0.02 * one.width), round(0.02 * one.height), one.width, one.height)),
    "brighter": lambda one: ImageEnhance.Brightness(one).enhance(1.05),
}
PIXELS = Embedder.wrap(nn.Flatten(), InputSpec(32, 32, 3, (0.5,) * 3, (0.5,) * 3))


def parted(images: ImageSet, count: int) -> tuple[ImageSet, ImageSet]:
    """Pictures that ask, and a gallery three times as large."""
    rows = np.random.default_rng(5).permutation(len(images))[:count]
    return images.subset(rows[: count // 4]), images.subset(rows[count // 4 :])


def found_among(source: str, count: int) -> dict[str, float]:
    """The share that is reported of new pictures, and of copies made worse, by their pixels alone."""
    asking, gallery = parted(load(source), count)
    query, items = PIXELS.encode(asking), PIXELS.encode(gallery)

    def reported(pictures: Embedding) -> np.ndarray:
        return nearest(pictures, [None] * len(pictures), items, [None] * len(items)).near_duplicate

    shares = {"new": float(reported(query).mean())}
    for name, change in WORSE.items():
        copies = PIXELS.encode([change(gallery.image(row)) for row in range(40)])
        shares[name] = float(reported(cat([query, copies]))[len(query) :].mean())
    return shares


def test_digits_are_alike_and_not_copies() -> None:
    assert found_among("digits:test", 898)["new"] == 0


@pytest.mark.parametrize(
    ("source", "folder"),
    [("cub:test", "CUB_200_2011"), ("lfw", "lfw"), ("flickr8k:all", "flickr8k"), (f"{ROOT}/market1501", "market1501")],
)
def test_copies_of_photographs_are_found_and_new_ones_are_not(source: str, folder: str) -> None:
    if not (ROOT / folder).is_dir():
        pytest.skip(f"set HOWSURE_DATA to a folder with {folder}")
    shares = found_among(source, 800)
    assert shares["new"] <= 0.005
    assert shares["cropped"] > 0.25
    assert min(shares[name] for name in ("saved again", "smaller", "brighter")) > 0.9


@pytest.mark.parametrize(
    ("source", "folder"), [("omniglot:test", "omniglot"), ("cifar10:test", "cifar-10-batches-bin")]
)
def test_new_small_pictures_are_not_copies(source: str, folder: str) -> None:
    if not (ROOT / folder).is_dir():
        pytest.skip(f"set HOWSURE_DATA to a folder with {folder}")
    assert found_among(source, 800)["new"] <= 0.005
