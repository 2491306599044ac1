import numpy as np
import pytest
from PIL import Image, ImageFilter
from sklearn.datasets import load_sample_image

from data.photographs import parts
from data.pictures import encoded
from howsure.data import decode
from howsure.data.corruptions import KINDS
from howsure.data.measures import MEASURES, measure, reduced
from howsure.errors import InputError

PLACE = {each.name: place for place, each in enumerate(MEASURES)}
PICTURES = parts(16)


def of(image: Image.Image, name: str, *, side: int = 224) -> float:
    return float(measure(image, side=side)[PLACE[name]])


def median(name: str, kind: str = "", severity: int = 0) -> float:
    """Over the parts, made worse in this way."""
    rng = np.random.default_rng(0)
    pictures = [PICTURES.image(row) for row in range(len(PICTURES))]
    seen = [KINDS[kind](picture, severity - 1, rng) if severity else picture for picture in pictures]
    return float(np.median([of(picture, name) for picture in seen]))


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 3), (8, 8), (17, 40), (1, 3_000), (5_000, 7), (300, 260)])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_always_finite_numbers(size: tuple[int, int], mode: str) -> None:
    rng = np.random.default_rng(0)
    noisy = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 4), np.uint8), "RGBA" if mode == "RGBA" else None)
    for image in (*(Image.new(mode, size, grey) for grey in ("black", "grey", "white")), noisy.convert(mode)):
        found = measure(image, side=224)
        assert found.shape == (len(MEASURES),)
        assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("name", "kind", "way"),
    [
        ("sharpness", "blur", -1),
        ("sharpness", "resolution", -1),
        ("coarse_sharpness", "blur", -1),
        ("diagonal", "jpeg", -1),
        ("noise", "noise", 1),
        ("blockiness", "jpeg", 1),
        ("exposure", "darkness", -1),
        ("exposure", "overexposure", 1),
        ("contrast", "contrast", -1),
        ("burnt", "overexposure", 1),
        ("patch", "occlusion", 1),
    ],
)
def test_a_fault_moves_its_measure_the_worse_way(name: str, kind: str, way: int) -> None:
    good, *worse = (median(name, kind, severity) for severity in (0, 2, 4))
    assert all((each - good) * way > MEASURES[PLACE[name]].least for each in worse)
    assert MEASURES[PLACE[name]].worse in (way, 0)


def test_light_changes_exposure_and_leaves_contrast_and_sharpness() -> None:
    for name, kind in (("contrast", "darkness"), ("sharpness", "darkness"), ("sharpness", "contrast")):
        assert median(name, kind, 2) == pytest.approx(median(name), abs=0.1)
    assert median("exposure", "darkness", 2) < median("exposure") - 1


def test_exposure_and_contrast_by_their_definition() -> None:
    picture = PICTURES.image(3).convert("L")
    low, high = np.quantile(np.asarray(picture), [0.01, 0.99], method="inverted_cdf") / 255
    middle = (low + high) / 2
    assert of(picture, "exposure") == pytest.approx(np.log2(middle / (1 - middle)), abs=0.05)
    assert of(picture, "contrast") == pytest.approx((high - low) / (high + low), abs=0.05)


def test_noise_has_the_stated_strength() -> None:
    levels = np.random.default_rng(0).normal(128, 12, (200, 200))
    # A quarter of the variance is left in the mean of four, which is taken for texture.
    assert of(Image.fromarray(np.rint(levels).astype(np.uint8)), "noise") == pytest.approx(
        np.log2(12 * 0.75**0.5 + 4) - 2, abs=0.1
    )


def test_texture_is_no_noise() -> None:
    leaves = Image.fromarray(np.asarray(PICTURES.image(0)))
    rough = np.asarray(leaves.convert("L"), float) + np.random.default_rng(0).normal(0, 25, (120, 120))
    assert of(leaves, "noise") < 0.5 < 1.5 < of(Image.fromarray(rough.clip(0, 255).astype(np.uint8)), "noise")


def test_a_patch_is_a_rectangle_and_a_sky_is_none() -> None:
    picture = np.array(PICTURES.image(1))
    sky, bar = picture.copy(), picture.copy()
    bar[:60] = 40
    sky[:60] = 40
    sky[20:60, 30:90] = picture[20:60, 30:90]
    assert of(Image.fromarray(bar), "patch") == pytest.approx(0.5, abs=0.05)
    assert of(Image.fromarray(sky), "patch") < 0.1


def test_blue_sky_and_white_wall_are_not_burnt() -> None:
    picture = np.array(PICTURES.image(0)) // 2
    blue, white, burnt = picture.copy(), picture.copy(), picture.copy()
    blue[:60], white[:60], burnt[:60] = (120, 180, 255), 255, (255, 255, 190)
    found = [of(Image.fromarray(pixels), "burnt") for pixels in (blue, white, burnt)]
    assert found[:2] == [0, 0]
    assert found[2] == pytest.approx(0.5, abs=0.05)


def test_a_lamp_in_the_night_is_not_dark() -> None:
    night = np.full((120, 120), 8, np.uint8)
    lamp = night.copy()
    lamp[50:70, 50:70] = 240
    assert of(Image.fromarray(night), "exposure") < -4 < -1 < of(Image.fromarray(lamp), "exposure")


def test_seams_are_sought_where_jpeg_puts_them() -> None:
    blocky = decode(encoded(PICTURES.image(0).resize((160, 160)), "JPEG", quality=5))
    assert of(blocky, "blockiness") > 0.5
    assert of(blocky.crop((3, 3, 160, 160)), "blockiness") < 0.1


def test_slight_blur_of_a_large_picture_does_not_count() -> None:
    large = Image.fromarray(load_sample_image("china.jpg")).crop((0, 0, 420, 420))
    soft = large.filter(ImageFilter.GaussianBlur(1))
    assert of(soft, "sharpness", side=420) < of(large, "sharpness", side=420) - 0.3
    assert of(soft, "sharpness", side=70) == pytest.approx(of(large, "sharpness", side=70), abs=0.1)


def test_size_counts_up_to_what_the_model_sees() -> None:
    sizes = [of(PICTURES.image(0).resize((length, length)), "size", side=64) for length in (32, 64, 200)]
    assert sizes == [5, 6, 6]


def test_turned_and_in_grey_it_is_the_same() -> None:
    picture = PICTURES.image(4)
    np.testing.assert_allclose(
        measure(picture.transpose(Image.Transpose.TRANSPOSE), side=224), measure(picture, side=224), atol=1e-5
    )
    grey = picture.convert("L")
    np.testing.assert_array_equal(measure(grey.convert("RGB"), side=224), measure(grey, side=224))


@pytest.mark.parametrize(("size", "kept"), [((640, 480), (299, 224)), ((4_000, 448), (448, 224)), ((90, 40), (80, 40))])
def test_the_middle_is_seen_and_never_enlarged(size: tuple[int, int], kept: tuple[int, int]) -> None:
    assert reduced(Image.new("L", size), 224).size == kept


def test_no_side_is_refused() -> None:
    with pytest.raises(InputError, match="side: expected at least 1 pixel, got 0"):
        measure(PICTURES.image(0), side=0)
