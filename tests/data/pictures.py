"""Pictures made on the spot, whole and broken."""

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def noise(width: int = 24, height: int = 16, *, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be huge."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _truncated(path: Path) -> None:
    content = encoded(noise(), "JPEG")
    path.write_bytes(content[: len(content) // 2])


def _damaged(path: Path, start: int, stop: int) -> None:
    content = bytearray(encoded(noise()))
    content[start:stop] = b"\xff" * (stop - start)
    path.write_bytes(bytes(content))


# kind -> (extension, how to write it, a word of the reason)
BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "empty": (".png", lambda path: path.touch(), "empty file"),
    "truncated": (".jpg", _truncated, "truncated file"),
    "header": (".png", lambda path: _damaged(path, 16, 20), "PNG file with a damaged or truncated header"),
    "damaged": (".png", lambda path: _damaged(path, 60, 120), "damaged file"),
    "text": (".jpeg", lambda path: path.write_text("<html>404</html>"), "not a picture in a known format"),
    "bomb": (".png", lambda path: path.write_bytes(bomb(20_000, 20_000)), "too many pixels: 400,000,000"),
    "pipe": (".png", os.mkfifo, "not a regular file"),
    "link": (".png", lambda path: path.symlink_to("nowhere.png"), "no such file"),
    "script": (".gif", lambda path: path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n"), "not a picture in a known format"),
    "self": (".webp", lambda path: path.symlink_to(path.name), "symbolic links"),
}


def folder_with_broken(root: Path) -> dict[str, str]:
    """300 pictures in three folders, 30 of them broken; the broken ids with a word of the reason for each."""
    kinds = list(BROKEN.items())
    expected: dict[str, str] = {}
    for i in range(300):
        folder = root / ("ant", "bee", "cow")[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        if i % 10 == 7:
            kind, (extension, write, reason) = kinds[(i // 10) % len(kinds)]
            write(folder / f"{i:03d}-{kind}{extension}")
            expected[f"{root.name}/{folder.name}/{i:03d}-{kind}{extension}"] = reason
        else:
            noise(seed=i).save(folder / f"{i:03d}.png")
    return expected
