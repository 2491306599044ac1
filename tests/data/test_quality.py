import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.photographs import parts
from howsure.data import FileImages, ImageSet, load
from howsure.data.corruptions import KINDS
from howsure.data.measures import MEASURES, measure
from howsure.data.quality import CAUSES, FAULTS, Quality, fit_quality, quality_from
from howsure.errors import CalibrationError, InputError
from howsure.metrics import auroc

ROOT = Path(os.environ.get("HOWSURE_DATA", "unset"))
SIDE = 120
CAUSE_OF = {
    "noise": "noisy",
    "blur": "blurred",
    "occlusion": "obscured",
    "contrast": "low_contrast",
    "resolution": "blurred",
    "jpeg": "compressed",
    "darkness": "dark",
    "overexposure": "overexposed",
}
NEW = parts(40, seed=1)


@pytest.fixture(scope="module")
def quality() -> Quality:
    return fit_quality(parts(120), side=SIDE)


def measured(images: ImageSet, kind: str | None = None, severity: int = 1) -> np.ndarray:
    rng = np.random.default_rng(severity)
    pictures = [images.image(row) for row in range(len(images))]
    return np.array([measure(KINDS[kind](each, severity - 1, rng) if kind else each, side=SIDE) for each in pictures])


def separation(quality: Quality, good: np.ndarray, worse: np.ndarray) -> float:
    score = -quality.probability(np.concatenate([good, worse]))
    return auroc(np.arange(len(score)) >= len(good), score)


@pytest.mark.parametrize("kind", FAULTS)
def test_faulty_pictures_are_told_from_good_ones(quality: Quality, kind: str) -> None:
    good = measured(NEW)
    found = [separation(quality, good, measured(NEW, kind, severity)) for severity in (1, 3, 5)]
    assert found[1] > 0.9
    assert found[2] >= found[0] - 0.02


@pytest.mark.parametrize("kind", FAULTS)
def test_the_cause_is_named(quality: Quality, kind: str) -> None:
    causes = quality.causes(measured(NEW, kind, 4))
    assert causes.count(CAUSE_OF[kind]) >= 0.8 * len(causes)


def test_small_pictures_are_small(quality: Quality) -> None:
    tiny = np.array([measure(NEW.image(row).resize((30, 30)), side=SIDE) for row in range(len(NEW))])
    assert quality.causes(tiny).count("small") >= 0.8 * len(tiny)


def test_good_pictures_are_rarely_poor_and_have_no_cause(quality: Quality) -> None:
    good = measured(NEW)
    assert quality.poor(good).mean() <= 0.125  # three of forty: twice the rate has one chance in ten
    assert sum(cause is not None for cause in quality.causes(good)) <= quality.poor(good).sum()
    assert np.median(quality.probability(good)) > 0.8


def test_nothing_is_said_where_two_faults_are_alike(quality: Quality) -> None:
    typical = quality.typical
    middle = np.array(typical.median)

    def worse(**by: float) -> np.ndarray:
        moved = middle.copy()
        for name, amount in by.items():
            place = [each.name for each in MEASURES].index(name)
            moved[place] += amount * (typical.above[place] if amount > 0 else typical.below[place])
        return moved[None]

    assert quality.causes(worse(exposure=-6)) == ["dark"]
    assert quality.causes(worse(exposure=-6, noise=6)) == [None]
    assert quality.causes(worse(exposure=-6, noise=3)) == ["dark"]
    assert quality.causes(worse(contrast=-6)) == ["low_contrast"]
    assert quality.causes(worse(contrast=-6, sharpness=-5)) == ["blurred"]
    assert quality.causes(worse(diagonal=-9)) == [None]  # poor, but it has no name


@pytest.mark.parametrize("held", [19, 20, 57, 300])
def test_at_most_one_in_twenty_good_pictures_is_called_poor(held: int) -> None:
    """Whatever the measurements are like: here with heavy tails."""
    rng, shares = np.random.default_rng(held), []
    for _ in range(300):
        typical, limiting, fresh = (rng.standard_t(3, (count, len(MEASURES))) for count in (30, held, 100))
        fitted = quality_from(typical, limiting, typical + 9, side=SIDE)
        shares.append(fitted.poor(fresh).mean())
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / len(shares) ** 0.5
    assert np.mean(shares) > 0.02  # and the limit is not empty


def test_the_probability_is_calibrated(quality: Quality) -> None:
    rng, good = np.random.default_rng(5), measured(NEW)
    worse = np.concatenate([measured(NEW, kind, int(rng.integers(1, 6))) for kind in FAULTS])
    told = quality.probability(np.concatenate([np.repeat(good, len(FAULTS), axis=0), worse]))
    right = np.arange(len(told)) < len(worse)
    for low, high in ((0, 0.2), (0.2, 0.8), (0.8, 1.01)):
        part = (told >= low) & (told < high)
        if part.sum() > 20:
            assert right[part].mean() == pytest.approx(told[part].mean(), abs=0.15)


def test_better_is_never_worse(quality: Quality) -> None:
    values = measured(NEW, "noise", 1)
    for place, each in enumerate(MEASURES):
        if each.worse:
            better = values.copy()
            better[:, place] -= each.worse * 0.3
            assert (quality.probability(better) >= quality.probability(values)).all()


def test_a_tenth_of_poor_pictures_does_little_harm(quality: Quality) -> None:
    rng, images = np.random.default_rng(2), parts(120)
    array = images.array.copy()
    for row in range(0, 120, 10):
        array[row] = np.asarray(KINDS[rng.choice(FAULTS)](Image.fromarray(array[row]), 3, rng))
    spoilt, good = fit_quality(replace(images, array=array), side=SIDE), measured(NEW)
    for kind in FAULTS:
        worse = measured(NEW, kind, 3)
        assert separation(spoilt, good, worse) > separation(quality, good, worse) - 0.05


def test_json_keeps_every_digit(quality: Quality) -> None:
    again = Quality.from_json(json.loads(json.dumps(quality.to_json())))
    assert again == quality
    np.testing.assert_array_equal(again.probability(measured(NEW)), quality.probability(measured(NEW)))
    for damaged in ({"side": 96}, quality.to_json() | {"typical": {"worse": [1]}}, quality.to_json() | {"link": None}):
        with pytest.raises(InputError, match="quality: expected what to_json wrote"):
            Quality.from_json(damaged)


def test_it_measures_as_its_model_sees(quality: Quality) -> None:
    picture = NEW.image(0)
    np.testing.assert_array_equal(quality.measure(picture), measure(picture, side=SIDE))


def test_unreadable_pictures_are_left_out_and_the_lot_is_the_seed(tmp_path: Path) -> None:
    images, files = parts(44, side=32), []
    for row in range(44):
        files.append(tmp_path / f"{row}.png")
        images.image(row).save(files[-1])
    files[7].write_bytes(b"no picture")
    in_files = FileImages("some", images.ids, images.labels, tuple(files))
    first, again, other = (fit_quality(in_files, side=32, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    for file in files[:10]:
        file.write_bytes(b"no picture")
    with pytest.raises(CalibrationError, match=r"at least 38, got 34 in some; add good pictures"):
        fit_quality(in_files, side=32)


def test_what_is_no_measurement_is_refused(quality: Quality) -> None:
    for values in (np.zeros(10), np.zeros((2, 9)), np.full((2, 10), np.nan)):
        with pytest.raises(InputError, match=r"measurements: expected \(n, 10\), finite"):
            quality.probability(values)
    ten = np.zeros((10, len(MEASURES)))
    with pytest.raises(CalibrationError, match="held-out pictures: expected at least 19, got 10"):
        quality_from(ten, ten, ten, side=SIDE)


def test_every_cause_has_words_and_measures() -> None:
    names = {each.name for each in MEASURES}
    for cause in CAUSES.values():
        assert cause.words
        assert cause.advice
        assert {name for name, _ in cause.shown_by} <= names


@pytest.mark.parametrize("source", ["cub:all", "flickr8k:dev", "lfw"])
def test_real_sets(source: str) -> None:
    folder = {"cub:all": "CUB_200_2011", "flickr8k:dev": "flickr8k", "lfw": "lfw"}[source]
    if not (ROOT / folder).is_dir():
        pytest.skip(f"set HOWSURE_DATA to a folder with {folder}")
    images = load(source)
    rows = np.random.default_rng(0).permutation(len(images))
    fitted, new = fit_quality(images.subset(rows[:80]), side=SIDE), images.subset(rows[80:120])
    good = measured(new)
    for kind in FAULTS:
        assert separation(fitted, good, measured(new, kind, 4)) > 0.9
