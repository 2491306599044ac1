import io
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from data.pictures import encoded, noise
from howsure.data import InputSpec, decode
from howsure.errors import DataError, InputError

GREY = InputSpec(8, 12, 1, (0.5,), (0.25,))
MODES = ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "I;16", "F"]
COLOUR = InputSpec(8, 12, 3, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from(MODES))
def test_any_picture_gets_the_shape(width: int, height: int, mode: str) -> None:
    for spec in (GREY, COLOUR):
        pixels = spec.pixels(Image.new(mode, (width, height)))
        assert pixels.shape == (spec.channels, 8, 12)
        assert pixels.dtype == np.uint8
        assert pixels.flags["C_CONTIGUOUS"]


@pytest.mark.parametrize("side", [28, 64, 112, 192, 224, 240, 300])
def test_no_size_is_too_odd_for_rounding(side: int) -> None:
    """The part that is resized never leaves the picture, whose last bits are another matter for every side."""
    spec, stripe = InputSpec(side, side, 1, (0.0,), (1.0,)), Image.new("L", (4_000, 1))
    for short in (1, 2, 3, 225, 450, 900, *range(7, 4_000, 331)):
        for size in ((short, 2), (2, short), (short, short + 1)):
            assert spec.pixels(stripe.resize(size)).shape == (1, side, side)


@pytest.mark.parametrize("ratio", [1, 4 / 3, 3, 20])
def test_a_plain_picture_of_any_short_side_stays_plain(ratio: float) -> None:
    for short in range(1, 401):
        for size in ((short, round(ratio * short)), (round(ratio * short), short)):
            pixels = GREY.pixels(Image.new("L", size, 100))
            assert pixels.shape == (1, 8, 12)
            assert (pixels == 100).all()


def test_a_picture_of_the_right_size_is_left_alone() -> None:
    picture = noise(12, 8)
    np.testing.assert_array_equal(COLOUR.pixels(picture), np.asarray(picture).transpose(2, 0, 1))
    np.testing.assert_array_equal(GREY.pixels(picture)[0], np.asarray(picture.convert("L")))


@pytest.mark.parametrize("size", [(120, 30), (30, 120), (24, 16), (3, 5), (1, 50)])
def test_resizing_agrees_with_pillows_own_centred_fit(size: tuple[int, int]) -> None:
    picture = noise(*size)
    fitted = ImageOps.fit(picture, (12, 8), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(COLOUR.pixels(picture), np.asarray(fitted).transpose(2, 0, 1))


def test_the_centre_is_kept_and_proportions_too() -> None:
    wide = np.zeros((20, 100, 3), np.uint8)
    wide[:, 35:65] = 255  # the middle 30 x 20, which has the proportions 12 x 8
    assert COLOUR.pixels(Image.fromarray(wide)).min() > 200
    assert COLOUR.pixels(Image.fromarray(255 - wide)).max() < 55


def test_shrinking_averages_instead_of_picking() -> None:
    checks = Image.fromarray(np.indices((80, 120)).sum(0).astype(np.uint8) % 2 * 255)
    assert np.abs(GREY.pixels(checks).astype(int) - 127).max() < 30


def test_a_pillow_image_is_treated_as_its_file_would_be() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(noise(40, 20), "JPEG", exif=exif)
    with Image.open(io.BytesIO(content)) as lazy:
        np.testing.assert_array_equal(COLOUR.pixels(lazy), COLOUR.pixels(decode(content)))
    with Image.open(io.BytesIO(content[:-200])) as broken, pytest.raises(DataError, match="truncated"):
        COLOUR.pixels(broken)


def test_normalise_is_the_formula() -> None:
    pixels = torch.randint(0, 256, (5, 3, 8, 12), dtype=torch.uint8)
    reference = np.empty(pixels.shape)
    for c in range(3):
        reference[:, c] = (pixels[:, c].numpy() / 255 - COLOUR.mean[c]) / COLOUR.std[c]
    result = COLOUR.normalise(pixels)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result.numpy(), reference, rtol=1e-5, atol=1e-6)
    assert COLOUR.normalise(pixels[:0]).shape == (0, 3, 8, 12)


def test_normalise_refuses_other_tensors() -> None:
    for wrong in (
        torch.zeros(2, 3, 8, 12),
        torch.zeros(2, 1, 8, 12, dtype=torch.uint8),
        torch.zeros(3, dtype=torch.uint8),
    ):
        with pytest.raises(InputError, match="pixels: expected uint8"):
            COLOUR.normalise(wrong)


def test_json_round_trip() -> None:
    for spec in (GREY, COLOUR):
        assert InputSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    "change",
    [
        {"height": 0},
        {"width": 2.5},
        {"width": True},
        {"channels": 2},
        {"mean": [0.5, 0.5]},
        {"mean": ["a"]},
        {"mean": 0.5},
        {"std": [0.0]},
        {"std": [float("nan")]},
        {"depth": 3},
    ],
)
def test_a_bad_card_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        InputSpec.from_json(GREY.to_json() | change)


def test_a_card_with_a_missing_key_or_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="keys"):
        InputSpec.from_json({"height": 8})
    with pytest.raises(InputError, match="list"):
        InputSpec.from_json([1, 2])  # type: ignore[arg-type]
