"""What every verb shares: results on stdout, everything else on stderr, progress bars where a person looks."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from howsure.errors import InputError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from howsure.data import Skipped

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first picture that cannot be read.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random choice.", min=0)]


def print_json(document: Any) -> None:
    """One JSON document on stdout; dataclasses become objects; infinities and NaN, which JSON lacks, become null."""
    print(json.dumps(_plain(document), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(text: str) -> None:
    """A line for the person who watches, on stderr."""
    typer.echo(text, err=True)


def report_skipped(skipped: Sequence[Skipped]) -> None:
    """Which pictures were left out, and why."""
    if skipped:
        say(f"skipped {len(skipped)} picture{'s' * (len(skipped) != 1)} that could not be read:")
    for item in skipped[:20]:
        say(f"  {item.path or item.id}: {item.reason}")
    if len(skipped) > 20:
        say(f"  ... and {len(skipped) - 20} more (--json lists all)")


def require_suffix(out: Path, suffix: str) -> None:
    """Refuse a name that promises another format, before anything is computed."""
    if out.suffix != suffix:
        raise InputError("out", expected=f"a name that ends in {suffix}", got=str(out))


def write_csv(out: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table, whole or not at all."""
    from howsure.files import write_whole

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, text.getvalue().encode())


class Advance(Protocol):
    """Moves a bar to `done`; a note replaces the task's name."""

    def __call__(self, done: float, note: str | None = None) -> None: ...


@contextmanager
def progress(task: str, total: int) -> Iterator[Advance]:
    """A bar on stderr, only where stderr is a terminal."""
    with phases() as bar:
        bar(task, 0, total)
        yield lambda done, note=None: bar(task, done, total, note)


class Show(Protocol):
    """Moves the bar of a phase to `done` of `total`; a note replaces the phase's name."""

    def __call__(self, phase: str, done: float, total: int, note: str | None = None) -> None: ...


@contextmanager
def phases() -> Iterator[Show]:
    """A bar on stderr for one phase after another, each with its own time left; only where stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        rows: dict[str, TaskID] = {}

        def show(phase: str, done: float, total: int, note: str | None = None) -> None:
            if phase not in rows:
                for row in rows.values():
                    bar.update(row, visible=False)
                rows[phase] = bar.add_task(phase, total=total)
            bar.update(rows[phase], completed=done, description=note)

        yield show


def device() -> str:
    """Chosen once, here at the edge."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
