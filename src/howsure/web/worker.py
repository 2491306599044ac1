"""Slow work outside the event loop, in order, with a bounded queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from howsure.web.problems import RefusedError

__all__ = ["Worker"]

LOG = logging.getLogger("howsure.web")
P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """One thread and a bounded queue: a request that comes when it is full is refused, not kept waiting."""

    def __init__(self, name: str, *, waiting: int):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting = waiting
        self.pending = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the work."""
        return await asyncio.wrap_future(self._submit(work, *args, **kwargs))

    def soon(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do it with nobody waiting, unless there is something to do already."""
        if not self.pending:
            self._submit(work, *args, **kwargs).add_done_callback(_log)

    @property
    def full(self) -> bool:
        """Whether a request that comes now is refused."""
        return self.pending > self._waiting  # one is being worked on

    def _submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self.full:
            raise RefusedError(503, "busy", got=f"{self.pending} requests that wait", fix="try again in a moment")
        self.pending += 1
        future = self._thread.submit(work, *args, **kwargs)
        # Counted when it ends, not when a client gives up: the thread works on all the same.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        return future

    def _ended(self) -> None:
        self.pending -= 1

    def close(self) -> None:
        """End what is begun, and begin nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def _log(future: Future[Any]) -> None:
    if not future.cancelled() and future.exception():
        LOG.warning("%s", future.exception())
