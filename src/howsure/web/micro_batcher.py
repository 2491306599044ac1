"""Micro-batching: questions that come in while others are being answered are answered in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from howsure.errors import HowsureError
from howsure.web.problems import RefusedError
from howsure.web.worker import Worker

__all__ = ["MicroBatcher"]

MOMENT = 0.01  # seconds

A = TypeVar("A")
B = TypeVar("B")


class MicroBatcher(Generic[A, B]):
    """`answer` takes questions and gives, for each, its answer or what is wrong with it."""

    def __init__(self, worker: Worker, answer: Callable[[Sequence[A]], list[B | HowsureError]], *, waiting: int):
        self._worker, self._answer, self._most = worker, answer, waiting
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._work: asyncio.Task[None] | None = None
        self._expected = 1
        self._all_here: asyncio.Event | None = None

    async def ask(self, question: A) -> B:
        """The answer to one question."""
        if len(self._waiting) >= self._most:
            raise RefusedError(503, "busy", got=f"{self._most} questions that wait", fix="try again in a moment")
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._all_here and len(self._waiting) >= self._expected:
            self._all_here.set()
        if self._work is None:
            self._work = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch, self._waiting = self._waiting, []
                self._expected = len(batch)
                try:
                    answers = await self._worker.run(self._answer, [question for question, _ in batch])
                except Exception as error:  # it may be about any of them
                    _deliver(batch, [error] * len(batch))
                else:
                    _deliver(batch, answers)
        finally:
            self._work = None

    async def _gather(self) -> None:
        """Wait a moment for as many as in the last batch, who are likely to ask again. One alone never waits."""
        if len(self._waiting) < self._expected:
            self._all_here = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_here.wait(), MOMENT)
            self._all_here = None


def _deliver(batch: Sequence[tuple[A, asyncio.Future[B]]], answers: Sequence[B | Exception]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if future.done():  # the client has left
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
