"""Maps as files: SVG that follows the reader's page, or PNG."""

from __future__ import annotations

import io
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from howsure.errors import DataError, InputError
from howsure.files import write_whole
from howsure.plots.figures import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["map_file", "write_map"]

PAGE = """<style>
svg { color: #1d1f21; background: #fcfcfa; }
@media (prefers-color-scheme: dark) { svg { color: #e6e6e1; background: #16181a; } }
</style>"""


def map_file(path: Path) -> Path:
    """The path, if a map can be written there; call it before the long work."""
    if path.suffix.lower() not in (".svg", ".png"):
        raise InputError("map", expected="a name that ends in .svg or .png", got=str(path))
    if path.is_dir():
        raise DataError(str(path), expected="a file for the map", got="a folder", fix="give another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = "a file" if path.parent.is_file() else str(error.strerror).lower()
        raise DataError(str(path.parent), expected="a folder for the map", got=got, fix="give another name") from error
    return path


def write_map(path: Path, figure: Figure, *, alt: str) -> None:
    """SVG in the light or dark of the reader's page, or PNG on white, as the name says; whole or not at all."""
    if map_file(path).suffix.lower() == ".svg":
        return write_whole(path, _standalone(svg(figure, name="map"), alt=alt).encode())
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, facecolor="white", metadata={"Description": alt})
    return write_whole(path, buffer.getvalue())


def _standalone(drawing: str, *, alt: str) -> str:
    drawing = drawing.replace(' aria-hidden="true">', f' role="img">\n<title>{escape(alt)}</title>\n{PAGE}', 1)
    return re.sub(r"(\d\.\d)\d+(?= )", r"\1", drawing)  # a tenth of a point is enough for coordinates
