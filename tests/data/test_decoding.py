import io
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from data.pictures import BROKEN, bomb, encoded, noise
from howsure.data import decode
from howsure.data.decoding import MAX_PIXELS
from howsure.errors import DataError

RAMP = np.linspace(0, 255, 64).astype(np.uint8).reshape(8, 8)
COLOUR = Image.fromarray(np.stack([RAMP, RAMP.T, 255 - RAMP], -1))
WHOLE = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "ICO"]


def arrays_near(image: Image.Image, reference: Image.Image, *, mean_error: float) -> bool:
    difference = np.asarray(image).astype(float) - np.asarray(reference).astype(float)
    return bool(np.abs(difference).mean() <= mean_error)


def reason_of(content: bytes) -> str | None:
    """Why it cannot be decoded; None when it can. Anything but a DataError goes through and fails the test."""
    try:
        decode(content)
    except DataError as error:
        return error.got
    return None


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_picture_of_every_format(kind: str) -> None:
    smooth = COLOUR.resize((32, 32), Image.Resampling.BILINEAR)
    image = decode(encoded(smooth, kind))
    assert image.size == (32, 32)
    assert image.mode == "RGB"
    assert arrays_near(image, smooth, mean_error=8)


@pytest.mark.parametrize("kind", WHOLE)
def test_a_cut_file_gives_a_picture_or_a_data_error(kind: str) -> None:
    content = encoded(noise(), kind)
    reasons = [reason_of(content[:cut]) for cut in np.linspace(0, len(content) - 1, 25).astype(int)]
    assert sum(map(bool, reasons)) >= 15


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(WHOLE), positions=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8))
def test_changed_bytes_give_a_picture_or_a_data_error(kind: str, positions: list[tuple[float, int]]) -> None:
    content = bytearray(encoded(noise(8, 8), kind))
    for position, value in positions:
        content[int(position * len(content))] = value
    reason = reason_of(bytes(content))
    assert reason is None or len(reason) > 5


@pytest.mark.parametrize("kind", BROKEN)
def test_every_broken_file_says_why(kind: str, tmp_path: Path) -> None:
    extension, write, reason = BROKEN[kind]
    path = tmp_path / f"broken{extension}"
    write(path)
    with pytest.raises(DataError) as caught:
        decode(path)
    assert reason in caught.value.got
    assert str(path) in str(caught.value)


def test_folders_missing_files_and_odd_names_say_why(tmp_path: Path) -> None:
    for path, reason in [(tmp_path, "a folder"), (tmp_path / "no.png", "no such file"), ("a\0b", "null")]:
        with pytest.raises(DataError) as caught:
            decode(path)
        assert reason in caught.value.got


def test_permission_denied_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.png"
    noise().save(path)
    path.chmod(0)
    if os.geteuid() == 0:  # nothing is forbidden to root, so the refusal is played

        def refuse(self: Path, *args: object) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="permission denied"):
        decode(path)


def test_16_bits_are_scaled_not_clipped() -> None:
    deep = Image.fromarray(RAMP.astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    for content in (encoded(deep), encoded(deep, "TIFF")):
        np.testing.assert_array_equal(np.asarray(decode(content)), RAMP)
    np.testing.assert_array_equal(np.asarray(decode(deep.convert("I"))), RAMP)
    big_endian = Image.frombytes("I;16B", (8, 8), (RAMP.astype(">u2") * 257).astype(">u2").tobytes())
    np.testing.assert_array_equal(np.asarray(decode(big_endian)), RAMP)


def test_integers_beyond_16_bits_are_stretched() -> None:
    wide = Image.fromarray(RAMP.astype(np.int32) * 100_000 - 5_000_000)
    assert arrays_near(decode(encoded(wide, "TIFF")), Image.fromarray(RAMP), mean_error=0.5)


@pytest.mark.parametrize(("scale", "shift"), [(1 / 255, 0.0), (40.0, -7.0)])
def test_floats_are_rescaled(scale: float, shift: float) -> None:
    values = RAMP.astype(np.float32) * scale + shift
    image = decode(encoded(Image.fromarray(values), "TIFF"))
    assert np.abs(np.asarray(image).astype(int) - RAMP).max() <= 1


def test_floats_that_are_not_numbers() -> None:
    values = RAMP.astype(np.float32) / 255
    values[0, 0], values[7, 7] = np.nan, np.inf
    expected = RAMP.copy()
    expected[0, 0], expected[7, 7] = 0, 255
    np.testing.assert_array_equal(np.asarray(decode(Image.fromarray(values))), expected)
    with pytest.raises(DataError, match="no finite pixel"):
        decode(Image.fromarray(np.full((4, 4), np.nan, np.float32)))


def test_constant_float_picture_is_black() -> None:
    assert np.asarray(decode(Image.fromarray(np.full((4, 4), 9.0, np.float32)))).max() == 0


def test_transparency_is_laid_on_white() -> None:
    half = Image.new("RGBA", (4, 4), (0, 0, 0, 128))
    assert decode(encoded(half)).getpixel((0, 0)) == (127, 127, 127)
    assert decode(encoded(half.convert("LA"))).getpixel((0, 0)) == 127
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert decode(encoded(clear, "WEBP", lossless=True)).getpixel((0, 0)) == (255, 255, 255)


def test_palettes_with_and_without_transparency() -> None:
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 255, 200, 10, 20] + [0] * 762)
    palette.putpixel((0, 0), 0)
    assert decode(encoded(palette)).getpixel((1, 1)) == (200, 10, 20)
    keyed = decode(encoded(palette, transparency=0))
    assert keyed.getpixel((0, 0)) == (255, 255, 255)
    assert keyed.getpixel((1, 1)) == (200, 10, 20)
    shaded = decode(encoded(palette, transparency=bytes([255, 0])))
    assert shaded.getpixel((0, 0)) == (0, 0, 255)
    assert shaded.getpixel((1, 1)) == (255, 255, 255)


@pytest.mark.parametrize(("mode", "key", "result"), [("L", 7, 255), ("RGB", (7, 7, 7), (255, 255, 255))])
def test_a_transparent_colour_is_white(mode: str, key: object, result: object) -> None:
    assert decode(encoded(Image.new(mode, (4, 4), key), transparency=key)).getpixel((0, 0)) == result


@pytest.mark.parametrize(
    ("mode", "kind", "expected"),
    [("1", "PNG", "L"), ("L", "JPEG", "L"), ("CMYK", "JPEG", "RGB"), ("CMYK", "TIFF", "RGB")],
)
def test_other_modes(mode: str, kind: str, expected: str) -> None:
    source = COLOUR.resize((32, 32)).convert(mode)
    image = decode(encoded(source, kind))
    assert image.mode == expected
    assert arrays_near(image, source.convert(expected), mean_error=6)


def test_ycbcr_and_a_mode_that_cannot_be_converted() -> None:
    assert arrays_near(decode(encoded(COLOUR.convert("YCbCr"), "TIFF")), COLOUR, mean_error=2)
    with pytest.raises(DataError, match="picture: expected a picture"):
        decode(Image.new("La", (4, 4)))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_many(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
    image = decode(encoded(frames[0], kind, save_all=True, append_images=frames[1:]))
    assert arrays_near(image, frames[0], mean_error=3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_once(kind: str, orientation: int) -> None:
    upright = np.zeros((16, 32), np.uint8)
    upright[:8, :8] = 255  # bright at the top left
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray(np.ascontiguousarray(stored)).convert("RGB")
    content = encoded(picture, kind, exif=exif)
    once = decode(content)
    assert arrays_near(once, Image.fromarray(upright).convert("RGB"), mean_error=8)
    assert arrays_near(decode(once), once, mean_error=0)
    assert arrays_near(decode(Image.open(io.BytesIO(content))), once, mean_error=0)


def test_damaged_exif_does_not_cost_the_picture() -> None:
    content = encoded(COLOUR, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12nonsense")
    assert decode(content).size == (8, 8)


def test_the_content_decides_not_the_extension(tmp_path: Path) -> None:
    path = tmp_path / "really-a-png.jpg"
    path.write_bytes(encoded(COLOUR))
    np.testing.assert_array_equal(np.asarray(decode(path)), np.asarray(COLOUR))
    with path.open("rb") as file:
        np.testing.assert_array_equal(np.asarray(decode(file)), np.asarray(COLOUR))


@pytest.mark.parametrize(("width", "height"), [(10_001, 10_000), (20_000, 20_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_before_it_goes_off(width: int, height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("pixels were decoded"))
    with pytest.raises(DataError, match=f"too many pixels: {width * height:,} "):
        decode(bomb(width, height))


def test_a_large_picture_within_the_limit_is_read_without_a_warning() -> None:
    large = Image.new("1", (9_900, 10_000))
    assert Image.MAX_IMAGE_PIXELS is not None
    assert Image.MAX_IMAGE_PIXELS < 99_000_000 < MAX_PIXELS
    assert decode(encoded(large)).size == (9_900, 10_000)


class Waiting(io.BytesIO):
    """A file that says when reading begins and then waits to be released."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.reading, self.released = threading.Event(), threading.Event()

    def read(self, *_: object) -> bytes:
        self.reading.set()
        assert self.released.wait(20)
        return self.getvalue()


def test_overlapping_threads_leave_the_warning_filters_and_pillow_as_they_were() -> None:
    before = (list(warnings.filters), Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
    files = [Waiting(encoded(COLOUR)), Waiting(encoded(COLOUR))]
    with ThreadPoolExecutor(2) as pool:
        pictures = []
        for file in files:
            pictures.append(pool.submit(decode, file))
            assert file.reading.wait(20)
        for file, picture in zip(files, pictures, strict=True):  # the first to enter is the first to leave
            file.released.set()
            assert picture.result(20).size == (8, 8)
    assert (list(warnings.filters), Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES) == before


def test_many_threads_decode_without_a_warning() -> None:
    content = encoded(COLOUR, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01\x12nonsense")
    with ThreadPoolExecutor(8) as pool:
        pictures = list(pool.map(decode, [content] * 300))
    assert {picture.size for picture in pictures} == {(8, 8)}
