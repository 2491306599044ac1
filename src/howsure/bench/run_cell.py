"""One run in a process of its own: `python -m howsure.bench.run_cell`, started by the runner.

Progress goes to stdout, a share a line. A reason to stop goes to stderr, its last line for people.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from howsure.backbones import remembering
from howsure.bench.experiments import experiment_named
from howsure.bench.plan import Cell, table_named
from howsure.bench.record import commit, write_record
from howsure.bench.work import FEATURES, Work
from howsure.errors import HowsureError

__all__ = ["make"]

STEP = 0.01  # of the training, between two lines


def make(work: Work) -> None:
    """Train, evaluate, and write the record, whole or not at all."""
    torch.set_num_threads(1)  # the same digits whatever else the machine does
    wall, cpu = time.perf_counter(), time.process_time()
    with remembering(work.folder.parent / FEATURES):
        found = experiment_named(work.table.experiment)(work)
    record: dict[str, Any] = {
        "table": work.table.name,
        "method": work.cell.method,
        "seeds": list(work.cell.seeds),
        "quick": work.quick,
        "data": dict(work.table.data),
        "recipe": work.entry.recipe.model_dump(),
        "start": work.entry.start,
        "posterior": work.entry.posterior,
        # Of this process: what was done before it was resumed, or by the run it starts from, is not in it.
        "seconds": {"wall": round(time.perf_counter() - wall, 1), "cpu": round(time.process_time() - cpu, 1)},
        "resumed": work.resumed,
        "commit": commit(),
    }
    write_record(work.folder / f"{work.cell.name}.json", record | found)


def main() -> None:
    """Read the command line; end when the parent process ends."""
    parser = argparse.ArgumentParser()
    for name in ("table", "method", "seeds", "folder"):
        parser.add_argument(name)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    cell = Cell(options.method, tuple(map(int, options.seeds.split(","))))
    try:
        make(Work(table_named(options.table), cell, Path(options.folder), options.quick, _progress_printer()))
    except HowsureError as error:
        sys.exit(str(error))


def _progress_printer() -> Callable[[float], None]:
    printed = 0.0

    def tell(share: float) -> None:
        nonlocal printed
        if share >= printed + STEP or share < printed:
            printed = share
            print(f"{share:.4f}", flush=True)

    return tell


def _end_with_the_parent() -> None:
    """The parent holds the other end of stdin; when it dies, even by kill -9, that ends, and so does this."""
    os.read(0, 1)  # not sys.stdin, whose lock a thread must not hold when Python ends
    os._exit(1)


if __name__ == "__main__":
    main()
