"""Many pictures in one request, added one by one, with a line about each as soon as it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, File, Form, UploadFile
from fastapi.responses import StreamingResponse

from howsure.errors import HowsureError
from howsure.web.problems import RefusedError
from howsure.web.schemas import Step
from howsure.web.service import Served, Service

router = APIRouter(tags=["items"])

LINES = "application/x-ndjson"
PAUSE = 0.1  # seconds, when others have filled the queue


@router.post(
    "/items/bulk",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES: {"schema": Step.model_json_schema()}}, "description": "One line a picture."}},
)
async def add_many(
    served: Served,
    pictures: Annotated[list[UploadFile], File(description="Pictures.")],
    label: Annotated[str | None, Form(min_length=1, max_length=256, description="What all of them show.")] = None,
) -> StreamingResponse:
    """Add many pictures. A line says what became of each, once it is on disk; a bad one does not stop the others."""
    uploads = await served.read_many(pictures, most=served.settings.bulk)
    return StreamingResponse(_steps(served, uploads, label), media_type=LINES)


async def _steps(served: Service, uploads: Sequence[tuple[str, bytes]], label: str | None) -> AsyncIterator[str]:
    for place, upload in enumerate(uploads):
        try:
            told = {"id": await _add_in_turn(served, upload, label)}
            served.counters.pictures += 1
        except HowsureError as error:
            told = {"problem": str(error)}
        yield Step(done=place + 1, total=len(uploads), **told).model_dump_json(exclude_none=True) + "\n"


async def _add_in_turn(served: Service, upload: tuple[str, bytes], label: str | None) -> str:
    """Between its pictures others have their turn; when the queue is full, it waits for its own."""
    while True:
        try:
            return await served.pictures.run(_add, served, upload, label)
        except RefusedError as error:
            if error.status != 503:
                raise
            await asyncio.sleep(PAUSE)


def _add(served: Service, upload: tuple[str, bytes], label: str | None) -> str:
    (name,) = served.state.add(served.decode([upload]), label)
    return name
