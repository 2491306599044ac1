"""Makes the runs that a table lacks: a process each, one thread each, several at a time.

A run that fails does not stop the others. One that is stopped resumes from its last whole epoch; its record is there
whole, or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from howsure.bench.plan import Cell, Table
from howsure.errors import InputError
from howsure.recipe import Recipe

__all__ = ["Progress", "discard", "make_missing", "missing", "record_file"]

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Progress:
    """What happened to a run; `done` of `total` counts the running ones by their share."""

    cell: Cell
    what: Literal["begun", "going", "made", "failed"]
    done: float
    total: int
    seconds: float  # since the first run began
    reason: str = ""

    @property
    def left(self) -> float | None:
        """Seconds still to go, if it goes on like this."""
        return self.seconds * (self.total / self.done - 1) if self.done else None


def record_file(folder: Path, cell: Cell) -> Path:
    """Where the record of a run is kept."""
    return folder / f"{cell.name}.json"


def missing(table: Table, cells: Sequence[Cell], folder: Path, *, quick: bool = False) -> list[Cell]:
    """The runs without a record. A record of another recipe is an error: nothing is overwritten unasked."""
    lacking = []
    for cell in cells:
        file = record_file(folder, cell)
        if not file.exists():
            lacking.append(cell)
            continue
        made = Recipe.from_json(json.loads(file.read_text(encoding="utf-8"))["recipe"])
        changed = made.differences(table.entries(seed=cell.seeds[0], quick=quick)[cell.method].recipe)
        if changed:
            raise InputError(
                f"{file} was made by another recipe: {'; '.join(changed)}",
                fix="make it again with --fresh, or keep results in another folder",
            )
    return lacking


def discard(cells: Sequence[Cell], folder: Path) -> None:
    """Remove the records and the models of these runs."""
    for cell in cells:
        record_file(folder, cell).unlink(missing_ok=True)
        shutil.rmtree(folder / "models" / cell.name, ignore_errors=True)


def make_missing(
    table: Table,
    cells: Sequence[Cell],
    folder: Path,
    *,
    quick: bool = False,
    jobs: int | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> dict[Cell, str]:
    """Make what is missing, `jobs` at a time, by default one a processor; returns the failures."""
    lacking = missing(table, cells, folder, quick=quick)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    runs = _Runs(table, folder, quick, tell, len(lacking))
    with ThreadPoolExecutor(max_workers=max(1, jobs or os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(runs.make, cell) for cell in lacking]
        try:
            for future in waiting:
                future.result()
        except BaseException:
            runs.stop()
            pool.shutdown(cancel_futures=True)
            raise
    return {cell: reason for cell, reason in runs.outcome.items() if reason}


@dataclass(eq=False)
class _Runs:
    """The processes, and how far each is."""

    table: Table
    folder: Path
    quick: bool
    tell: Callable[[Progress], None]
    total: int
    outcome: dict[Cell, str] = field(default_factory=dict)  # of those that ended: why they failed, or nothing
    share: dict[Cell, float] = field(default_factory=dict)  # of those that run
    children: set[subprocess.Popen[str]] = field(default_factory=set)
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    began: float = field(default_factory=time.monotonic)

    def make(self, cell: Cell) -> None:
        log = self.folder / "models" / f"{cell.name}.log"
        with log.open("w", encoding="utf-8") as errors:
            child = self._start(cell, errors.fileno())
            if child is None:
                return
            self._note(cell, "begun")
            assert child.stdout is not None  # for the type checker: it is a pipe
            with child:
                for line in child.stdout:
                    self.share[cell] = float(line)
                    self._note(cell, "going")
        self.children.discard(child)
        reason = "" if child.returncode == 0 else _reason(child.returncode, log)
        self.share.pop(cell, None)
        self.outcome[cell] = reason
        if not self.stopped:
            self._note(cell, "failed" if reason else "made", reason)

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for child in self.children:
                child.terminate()

    def _start(self, cell: Cell, errors: int) -> subprocess.Popen[str] | None:
        words = [self.table.file.resolve(), cell.method, ",".join(map(str, cell.seeds)), self.folder.resolve()]
        command = [sys.executable, "-m", "howsure.bench.run_cell", *map(str, words), *["--quick"] * self.quick]
        with self.lock:
            if self.stopped:
                return None
            # Its stdin stays open as long as this process lives; a run ends when it closes.
            pipe, environment = subprocess.PIPE, os.environ | ONE_THREAD
            child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment)
            self.children.add(child)
            self.share[cell] = 0.0
            return child

    def _note(self, cell: Cell, what: Literal["begun", "going", "made", "failed"], reason: str = "") -> None:
        with self.lock:
            done = len(self.outcome) + sum(self.share.values())
            self.tell(Progress(cell, what, done, self.total, time.monotonic() - self.began, reason))


def _reason(code: int, log: Path) -> str:
    if code < 0:
        return f"killed by signal {-code}"
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"{lines[-1].strip()} ({log})" if lines else f"exit code {code}"
