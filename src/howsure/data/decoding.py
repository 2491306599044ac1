"""Any picture file becomes an upright 8-bit picture, or an error that says why not.

Files come from anywhere, so nothing in them is trusted: the number of pixels is checked before a pixel is decoded,
only plain raster formats are tried (no format that runs another program), and whatever a damaged file makes Pillow
raise comes out as one `DataError` whose `got` is the reason.
"""

import io
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from howsure.errors import DataError

MAX_PIXELS = 100_000_000
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "ICO")
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode(
    source: str | os.PathLike[str] | bytes | BinaryIO | Image.Image, *, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """The first frame of a picture, upright, in mode "L" or "RGB"; a Pillow image that is plain already as it is.

    A path, the content of a file as bytes, an open binary file, or a Pillow image. The content decides, not the
    extension. Transparency is laid on white. 16 bits are scaled to 8; floats in [0, 1] are taken as such; other
    ranges are stretched from their least to their greatest value. More than `max_pixels` are refused before a pixel is
    decoded.

    >>> decode(b"hello")
    Traceback (most recent call last):
    howsure.errors.DataError: picture: expected a picture, got not a picture in a known format
    """
    if type(source) is Image.Image and source.mode in ("L", "RGB") and not source.info:
        return source
    what = os.fspath(source) if isinstance(source, str | os.PathLike) else "picture"
    try:
        with _quiet_pillow(), _opened(source) as image:
            if (count := image.width * image.height) > max_pixels:
                raise DataError("picture", got=f"too many pixels: {count:,} (limit {max_pixels:,})")
            image.load()
            return _plain(image)
    except Exception as error:  # a plugin that meets a damaged file raises whatever it trips over
        raise DataError(what, expected="a picture", got=_reason(error, max_pixels)) from error


@contextmanager
def _opened(source: str | os.PathLike[str] | bytes | BinaryIO | Image.Image) -> Iterator[Image.Image]:
    if isinstance(source, Image.Image):
        yield source
    elif isinstance(source, bytes):
        yield _identified(io.BytesIO(source))
    elif isinstance(source, str | os.PathLike):
        # Looked at before it is opened: opening a pipe would wait for ever.
        mode = Path(source).stat().st_mode
        if not stat.S_ISREG(mode):
            raise DataError("picture", got="a folder, not a file" if stat.S_ISDIR(mode) else "not a regular file")
        with Path(source).open("rb") as file, _identified(file) as image:
            yield image
    else:
        yield _identified(io.BytesIO(source.read()))


def _identified(file: BinaryIO) -> Image.Image:
    prefix = file.read(16)
    file.seek(0)
    if not prefix:
        raise DataError("picture", got="empty file")
    try:
        return Image.open(file, formats=_formats())
    except UnidentifiedImageError:
        alike = [name for name in _formats() if (accept := Image.OPEN[name][1]) and accept(prefix) is True]
        reason = f"{alike[0]} file with a damaged or truncated header" if alike else "not a picture in a known format"
        raise DataError("picture", got=reason) from None


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _plain(image: Image.Image) -> Image.Image:
    turn = _UPRIGHT.get(_orientation(image))
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = _to_8_bits(image)
    elif image.has_transparency_data:
        image = _on_white(image)
    else:
        image = image.convert("L" if image.mode in ("1", "L") else "RGB")
    image = image if turn is None else image.transpose(turn)
    image.info = {}  # it still says how to turn the picture, which is done
    return image


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF says nothing about orientation, and the pixels are fine
        return 1


def _to_8_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.float32)
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise DataError("picture", got="no finite pixel")
    low, high, full = float(finite.min()), float(finite.max()), 1.0 if image.mode == "F" else 65535.0
    if low >= 0 and high <= full:
        low, high = 0.0, full
    values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
    scaled = (values - low) * (255.0 / ((high - low) or 1.0))
    return Image.fromarray(np.rint(scaled).clip(0, 255).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    grey = image.mode in ("1", "L", "LA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("L" if grey else "RGB")


def _reason(error: Exception, limit: int) -> str:
    message = str(error)
    if isinstance(error, DataError):
        return error.got
    if isinstance(error, Image.DecompressionBombError):
        pixels = re.search(r"\((\d+) pixels\)", message)
        return f"too many pixels: {int(pixels[1]):,} (limit {limit:,})" if pixels else "too many pixels"
    if isinstance(error, MemoryError):
        return "a picture that needs too much memory"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()  # no such file or directory, permission denied, ...
    if isinstance(error, EOFError) or "truncated" in message.lower():
        return "truncated file"
    return f"damaged file ({message or type(error).__name__})"


_filters_lock = threading.Lock()
_decoding = 0
_ignored = warnings.catch_warnings()


@contextmanager
def _quiet_pillow() -> Iterator[None]:
    """Ignore Pillow's warnings while at least one thread decodes.

    Filters belong to the process: were each thread to save and restore them, the last to leave could restore the
    filters of another. So the first thread in saves them and the last one out restores them.
    """
    global _decoding, _ignored
    with _filters_lock:
        _decoding += 1
        if _decoding == 1:
            _ignored = warnings.catch_warnings()
            _ignored.__enter__()
            warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        yield
    finally:
        with _filters_lock:
            _decoding -= 1
            if _decoding == 0:
                _ignored.__exit__(None, None, None)
