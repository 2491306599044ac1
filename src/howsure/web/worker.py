"""Slow work beside the event loop, in order, and never too much of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from howsure.web.problems import RefusedError

__all__ = ["Worker"]

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """One thread and a queue with an end: whoever comes when it is full is sent away, not kept waiting."""

    def __init__(self, name: str, *, waiting: int):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting = waiting
        self.pending = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the work, once its turn has come."""
        if self.pending > self._waiting:  # one is being worked on
            raise RefusedError(503, "busy", got=f"{self.pending} requests that wait", fix="try again in a moment")
        self.pending += 1
        future = self._thread.submit(work, *args, **kwargs)
        # Counted when it ends, not when a client gives up: the thread works on all the same.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        return await asyncio.wrap_future(future)

    def _ended(self) -> None:
        self.pending -= 1

    def close(self) -> None:
        """End what is begun, and begin nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
