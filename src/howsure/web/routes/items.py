"""The items of the gallery: look, add, remove and bring back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Form, Query, Response, UploadFile
from fastapi.responses import StreamingResponse

from howsure.errors import HowsureError, ModelError
from howsure.web.pictures import thumbnail_of
from howsure.web.problems import RefusedError, no_item
from howsure.web.schemas import Added, Item, ItemPage, ItemQuery, Removed, Step, Undo
from howsure.web.service import Served, Service
from howsure.web.state import State
from howsure.web.view import View

router = APIRouter(tags=["items"])

LINES = "application/x-ndjson"
PAUSE = 0.1  # seconds, when others have filled the queue

Pictures = Annotated[list[UploadFile], File(description="One or more pictures.")]
LabelOfAll = Annotated[str | None, Form(min_length=1, max_length=256, description="What all of them show.")]


@router.get("/items")
async def list_items(served: Served, asked: Annotated[ItemQuery, Query()]) -> ItemPage:
    """Some items, sorted and filtered; `total` is how many there are."""
    # Neighbours may have to be looked at first.
    worker = served.comparisons if _by_probability(asked) else served.lookups
    return await worker.run(_page, served.state, asked)


@router.post("/items", status_code=201)
async def add_items(served: Served, pictures: Pictures, label: LabelOfAll = None) -> Added:
    """Add pictures. The reply comes once they are on disk; only their pixels are kept."""
    uploads = await served.read(pictures, most=served.settings.pictures)
    added = await served.pictures.run(_add, served, uploads, label)
    served.counters.pictures += len(uploads)
    return added


@router.post(
    "/items/bulk",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES: {"schema": Step.model_json_schema()}}, "description": "One line a picture."}},
)
async def add_many(served: Served, pictures: Pictures, label: LabelOfAll = None) -> StreamingResponse:
    """Add many pictures. A line says what became of each, once it is on disk; a bad one does not stop the others."""
    uploads = await served.read(pictures, most=served.settings.bulk)
    return StreamingResponse(_steps(served, uploads, label), media_type=LINES)


@router.post("/undo")
async def undo(served: Served, token: Undo) -> Item:
    """Bring back an item that was removed."""
    return await served.lookups.run(lambda: _item(served.state, served.state.undo(token.undo)))


@router.get("/items/{name:path}")
async def get_item(served: Served, name: str) -> Item:
    """One item."""
    return await served.lookups.run(_item, served.state, name)


@router.delete("/items/{name:path}")
async def remove_item(served: Served, name: str) -> Removed:
    """Remove an item. The token in the reply brings it back, as long as the server runs."""
    return Removed(id=name, undo=await served.lookups.run(served.state.remove, name))


@router.get(
    "/thumbnails/{name:path}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "A small picture."}},
)
async def thumbnail(served: Served, name: str) -> Response:
    """A small picture of an item."""
    content = await served.thumbnails.run(_thumbnail, served.state, name)
    return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=300"})


def _page(state: State, asked: ItemQuery) -> ItemPage:
    view = state.view()
    kept = _wanted(view, asked)
    if _by_probability(asked):
        kept &= _confirmed(state, view, asked)
    rows = np.flatnonzero(kept)
    if asked.sort != "added":
        by_label = asked.sort == "label"
        values = np.array([view.labels[row] or "" for row in rows]) if by_label else view.uncertainty[rows]
        rows = rows[np.argsort(values, kind="stable")]
    rows = rows[::-1] if asked.descending else rows
    shown = rows[asked.offset : asked.offset + asked.limit].tolist()
    return ItemPage(items=_items(state, view, shown), total=len(rows), offset=asked.offset)


def _wanted(view: View, asked: ItemQuery) -> np.ndarray:
    kept = np.ones(len(view.ids), bool)
    if asked.label is not None:
        kept &= np.array([label == asked.label for label in view.labels], bool)
    if asked.text:
        kept &= np.array([asked.text.lower() in name.lower() for name in view.ids], bool)
    rank = np.searchsorted(view.ascending, view.uncertainty) / max(1, len(view.ids))
    if asked.least is not None:
        kept &= rank >= asked.least
    if asked.most is not None:
        kept &= rank <= asked.most
    return kept


def _by_probability(asked: ItemQuery) -> bool:
    return asked.probability_from is not None or asked.probability_to is not None


def _confirmed(state: State, view: View, asked: ItemQuery) -> np.ndarray:
    matcher = state.gallery.matcher
    if matcher is None:
        raise ModelError("this model cannot tell probabilities yet", fix="run howsure calibrate")
    if len(view.ids) < 2:
        return np.zeros(len(view.ids), bool)
    probability = state.neighbours(view).label_probability(matcher)
    least = 0.0 if asked.probability_from is None else asked.probability_from
    most = 1.0 if asked.probability_to is None else asked.probability_to
    return (probability >= least) & (probability <= most)  # NaN is in no range: nothing to confirm without a label


def _items(state: State, view: View, rows: Sequence[int]) -> list[Item]:
    stored = state.index.items([view.ids[row] for row in rows]) if rows else []
    return [
        Item(
            id=item.id,
            label=view.labels[row],
            uncertainty=float(view.uncertainty[row]),
            rank=view.rank(float(view.uncertainty[row])) or 0.0,
            picture="path" in item.metadata or "source" in item.metadata,
        )
        for row, item in zip(rows, stored, strict=True)
    ]


def _item(state: State, name: str) -> Item:
    view = state.view()
    if name not in view.position:
        raise no_item(name)
    return _items(state, view, [view.position[name]])[0]


def _add(served: Service, uploads: Sequence[tuple[str, bytes]], label: str | None) -> Added:
    state = served.state
    ids = state.add(served.decode(uploads), label)
    view = state.view()
    return Added(items=_items(state, view, [view.position[name] for name in ids]))


async def _steps(served: Service, uploads: Sequence[tuple[str, bytes]], label: str | None) -> AsyncIterator[str]:
    for count, upload in enumerate(uploads, 1):
        try:
            outcome = {"id": await _add_in_turn(served, upload, label)}
            served.counters.pictures += 1
        except HowsureError as error:
            outcome = {"problem": str(error)}
        yield Step(done=count, total=len(uploads), **outcome).model_dump_json(exclude_none=True) + "\n"


async def _add_in_turn(served: Service, upload: tuple[str, bytes], label: str | None) -> str:
    """Between its pictures others have their turn; when the queue is full, it waits for its own."""
    while served.pictures.full:
        await asyncio.sleep(PAUSE)
    (name,) = await served.pictures.run(lambda: served.state.add(served.decode([upload]), label))
    return name


def _thumbnail(state: State, name: str) -> bytes:
    state.require([name])
    content = thumbnail_of(name, state.index.items([name])[0].metadata)
    if content is None:
        raise RefusedError(404, f"picture of {name[:60]!r}", expected="a picture", got="none that can be read")
    return content
