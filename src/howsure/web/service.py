"""What every route is given: the state, the workers and the counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from fastapi import Depends, Request, UploadFile

from howsure.errors import HowsureError
from howsure.web.counters import Counters
from howsure.web.micro_batcher import MicroBatcher
from howsure.web.pictures import Picture, read_picture
from howsure.web.problems import RefusedError
from howsure.web.schemas import Precomputed, SearchReply
from howsure.web.settings import Settings
from howsure.web.state import State
from howsure.web.worker import Worker

__all__ = ["Served", "Service"]

WORKERS = "pictures", "lookups", "thumbnails", "comparisons"


class Service:
    """A running server. Some work is quick and some slow, so each sort has a worker of its own."""

    def __init__(
        self,
        state: State,
        settings: Settings,
        answer: Callable[[State, Sequence[Precomputed]], list[SearchReply | HowsureError]],
    ):
        self.state, self.settings, self.counters = state, settings, Counters()
        self._workers = [Worker(name, waiting=settings.waiting) for name in WORKERS]
        self.pictures, self.lookups, self.thumbnails, self.comparisons = self._workers
        self.questions = MicroBatcher(self.lookups, partial(answer, state), waiting=settings.waiting)

    async def read(self, uploads: Sequence[UploadFile], *, most: int) -> list[tuple[str, bytes]]:
        """The uploads as they came, few enough of them."""
        if len(uploads) > most:
            raise RefusedError(413, "pictures", expected=f"at most {most} in a request", got=str(len(uploads)))
        return [(upload.filename or "picture", await upload.read()) for upload in uploads]

    def decode(self, uploads: Sequence[tuple[str, bytes]]) -> list[Picture]:
        """Their pixels; in a worker."""
        return [read_picture(name, content, max_pixels=self.settings.pixels) for name, content in uploads]

    @property
    def pending(self) -> int:
        """Requests at work or in a queue."""
        return sum(worker.pending for worker in self._workers)

    def close(self) -> None:
        """Finish what is under way, then close the gallery."""
        self.state.closing.set()
        for worker in self._workers:
            worker.close()
        self.state.close()


async def _service(request: Request) -> Service:  # async, or it would be called in a thread of its own
    found: Service = request.app.state.service
    return found


Served = Annotated[Service, Depends(_service)]
