"""Contact sheets: the most and the least certain pictures of a set."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from howsure.data import ImageSet
from howsure.embeddings import Embedding
from howsure.errors import DataError, InputError
from howsure.files import write_whole
from howsure.neighbours import neighbours

__all__ = ["sheets_folder", "write_sheets"]

COUNT, COLUMNS = 48, 8  # pictures a sheet, pictures a row
BOX = (144, 112)  # pixels for a picture, at most
GAP, LINE, TEXT, HEAD = 14, 18, 14, 17  # pixels: between pictures, of a line, of its letters, of those of the title
INK, SOFT, BAD, PAPER = "#1d1f21", "#5a5f63", "#b3261e", "#fcfcfa"  # paper of its own: it holds on a dark page too


@dataclass(frozen=True)
class Item:
    """A picture on a sheet: its uncertainty, and the label of the other picture nearest to it."""

    row: int
    id: str
    label: str | None
    uncertainty: float
    nearest: str | None

    @property
    def right(self) -> bool | None:
        """Whether the nearest is of the same class; None where that is not known."""
        return None if None in (self.label, self.nearest) else self.label == self.nearest


def sheets_folder(path: Path) -> Path:
    """The folder, made if need be; call it before the long work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = "a file" if path.is_file() else str(error.strerror).lower()
        raise DataError(str(path), expected="a folder for the sheets", got=got, fix="give another name") from error
    return path


def write_sheets(folder: Path, images: ImageSet, embedding: Embedding) -> list[Path]:
    """Write most-certain.png, least-certain.png and index.json; picture i of the set has embedding i.

    Sorted by the embedding's uncertainty; where that is the same for all, by the distance to the nearest neighbour.
    No picture is on both sheets. A red frame: the nearest other picture is of another class.
    """
    if len(embedding) < 2:
        raise InputError("sheets", expected="two pictures or more", got=str(len(embedding)))
    name, score = _score(embedding)
    order = np.argsort(score, kind="stable")
    count = min(COUNT, len(order) // 2)
    made, listed = [], []
    for which, rows in (("most", order[:count]), ("least", order[::-1][:count])):
        items = _items(images, embedding, rows, score)
        wrong = sum(item.right is False for item in items)
        title = f"{which.capitalize()} certain: {count} of {len(images):,} pictures of {images.name}"
        how = f"by {name}, large = uncertain; red: the nearest other picture is of another class, {wrong} of {count}"
        file = folder / f"{which}-certain.png"
        write_whole(file, _png(_sheet(images, items, heading=(title, how))))
        rows_json = [
            {"id": item.id, "label": item.label, name: item.uncertainty, "nearest": item.nearest, "right": item.right}
            for item in items
        ]
        listed.append({"file": file.name, "items": rows_json})
        made.append(file)
    index = {"data": images.name, "pictures": len(images), "sorted_by": name, "large_means": "unsure", "sheets": listed}
    made.append(folder / "index.json")
    write_whole(made[-1], (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode())
    return made


def _score(embedding: Embedding) -> tuple[str, np.ndarray]:
    uncertainty = embedding.uncertainty.double().numpy()
    if np.ptp(uncertainty) > 0:
        return "uncertainty", uncertainty
    return "top1_distance", neighbours(embedding, embedding, leave_one_out=True, depth=1).distances[:, 0]


def _items(images: ImageSet, embedding: Embedding, rows: np.ndarray, score: np.ndarray) -> list[Item]:
    near = neighbours(embedding[rows], embedding, depth=2).positions
    other = np.where(near[:, 0] == rows, near[:, 1], near[:, 0])  # a picture is not its own neighbour
    return [
        Item(int(i), images.ids[i], images.labels[i], float(score[i]), images.labels[j])
        for i, j in zip(rows, other, strict=True)
    ]


def _sheet(images: ImageSet, items: list[Item], *, heading: tuple[str, str]) -> Image.Image:
    text, head = ImageFont.load_default(size=TEXT), ImageFont.load_default(size=HEAD)
    pictures = [_fitted(images.image(item.row)) for item in items]
    tallest = max(picture.height for picture in pictures)
    columns = min(COLUMNS, len(items))
    wide, high, top = BOX[0] + GAP, tallest + 3 * LINE + GAP, 2 * GAP + 2 * LINE
    longest = max(head.getlength(heading[0]), text.getlength(heading[1]))
    width = max(GAP + columns * wide, 2 * GAP + round(longest))
    sheet = Image.new("RGB", (width, top + -(-len(items) // columns) * high), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP - 4), heading[0], INK, head)
    draw.text((GAP, GAP + LINE), heading[1], SOFT, text)
    for number, (item, picture) in enumerate(zip(items, pictures, strict=True)):
        left, upper = GAP + number % columns * wide, top + number // columns * high
        corner = left + (BOX[0] - picture.width) // 2, upper + tallest - picture.height
        sheet.paste(picture, corner)
        if item.right is False:
            edge = (corner[0] - 3, corner[1] - 3, corner[0] + picture.width + 2, corner[1] + picture.height + 2)
            draw.rectangle(edge, outline=BAD, width=3)
        for line, (words, colour) in enumerate(_caption(item)):
            shown = _shortened(words, text)
            x = left + (BOX[0] - text.getlength(shown)) / 2
            draw.text((x, upper + tallest + 4 + line * LINE), shown, colour, text)
    return sheet


def _caption(item: Item) -> list[tuple[str, str]]:
    """Lines under a picture, each with its colour."""
    lines = [(item.label or "no label", INK), (f"{item.uncertainty:.3g}", SOFT)]
    if item.right is False:
        lines.append((f"nearest: {item.nearest}", BAD))
    return lines


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
