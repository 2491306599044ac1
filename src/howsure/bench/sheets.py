"""Contact sheets: the most and the least certain pictures of a set, to see what a model does not understand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from howsure.bench.evaluation import neighbours
from howsure.data import ImageSet
from howsure.embeddings import Embedding
from howsure.errors import DataError
from howsure.files import write_whole

__all__ = ["sheets_folder", "write_sheets"]

COUNT, COLUMNS = 48, 8  # pictures a sheet, pictures a row
BOX = (120, 96)  # pixels for a picture
GAP, LINE = 8, 16  # between pictures, of text
INK, PAPER = "black", "white"


def sheets_folder(path: Path) -> Path:
    """The folder, made if need be; call it before the long work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = "a file" if path.is_file() else str(error.strerror).lower()
        raise DataError(str(path), expected="a folder for the sheets", got=got, fix="give another name") from error
    return path


def write_sheets(folder: Path, images: ImageSet, belief: Embedding) -> list[Path]:
    """Write most-certain.png, least-certain.png and index.json; picture i of the set has belief i.

    Sorted by the belief's uncertainty; where that is the same for all, by the distance to the nearest neighbour.
    No picture is on both sheets.
    """
    name, score = _doubt(belief)
    order = np.argsort(score, kind="stable")
    count = min(COUNT, max(1, len(order) // 2))
    made, listed = [], []
    for which, rows in (("most", order[:count]), ("least", order[::-1][:count])):
        title = f"{which} certain of {len(images):,}: {images.name}, by {name} (large = unsure)"
        file = folder / f"{which}-certain.png"
        write_whole(file, _png(_sheet(images, rows, score, title=title)))
        items = [{"id": images.ids[i], "label": images.labels[i], name: float(score[i])} for i in rows]
        listed.append({"file": file.name, "items": items})
        made.append(file)
    index = {"data": images.name, "pictures": len(images), "sorted_by": name, "large_means": "unsure", "sheets": listed}
    made.append(folder / "index.json")
    write_whole(made[-1], (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode())
    return made


def _doubt(belief: Embedding) -> tuple[str, np.ndarray]:
    uncertainty = belief.uncertainty.double().numpy()
    if np.ptp(uncertainty) > 0:
        return "uncertainty", uncertainty
    return "top1_distance", neighbours(belief, belief, leave_one_out=True, depth=1).distances[:, 0]


def _sheet(images: ImageSet, rows: np.ndarray, score: np.ndarray, *, title: str) -> Image.Image:
    font = ImageFont.load_default(size=12)
    columns = min(COLUMNS, len(rows))
    wide, high = BOX[0] + GAP, BOX[1] + 2 * LINE + GAP
    width = max(GAP + columns * wide, 2 * GAP + round(font.getlength(title)))
    sheet = Image.new("RGB", (width, 2 * GAP + LINE + -(-len(rows) // columns) * high), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), title, INK, font)
    for place, i in enumerate(rows):
        left, top = GAP + place % columns * wide, 2 * GAP + LINE + place // columns * high
        picture = _fitted(images.image(int(i)))
        sheet.paste(picture, (left + (BOX[0] - picture.width) // 2, top + BOX[1] - picture.height))
        for line, words in enumerate((images.labels[i] or "no label", f"{score[i]:.4g}")):
            text = _shortened(words, font)
            x = left + (BOX[0] - font.getlength(text)) / 2
            draw.text((x, top + BOX[1] + 2 + line * LINE), text, INK, font)
    return sheet


def _fitted(image: Image.Image) -> Image.Image:
    """As large as the box allows. Small pictures grow by whole pixels, so that they are seen as they are."""
    scale = min(BOX[0] / image.width, BOX[1] / image.height)
    method = Image.Resampling.LANCZOS
    if scale >= 2:
        scale, method = int(scale), Image.Resampling.NEAREST
    size = max(1, round(scale * image.width)), max(1, round(scale * image.height))
    return image.convert("RGB").resize(size, method)


def _shortened(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """The text on one line, or its end if it is too long for the box: labels tend to differ there."""
    text = " ".join(text.split())
    if font.getlength(text) <= BOX[0]:
        return text
    while text and font.getlength(f"…{text}") > BOX[0]:
        text = text[1:]
    return f"…{text}"


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
