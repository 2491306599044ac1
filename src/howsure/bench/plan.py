"""A published table as data: what it measures, what was printed, and which runs compare with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from howsure.bench.entries import Entry, read_entries, read_toml
from howsure.data.suggest import did_you_mean
from howsure.errors import InputError

__all__ = ["Baseline", "Cell", "Column", "Reading", "Row", "Settled", "Table", "table_named", "table_names"]

SHIPPED = Path(__file__).parent / "tables"


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Plain):
    """A column. Of its metrics the first that a record holds counts; `{score}` stands for each score of the row."""

    words: str
    metrics: tuple[str, ...]
    better: Literal["high", "low"]
    group: str = ""
    convention: str
    chance: float | str | None = None  # what guessing reaches: a number, or the metric that holds it
    comparable: bool = True  # False where the published column has other data behind it


class Reading(_Plain):
    """Metrics of another row's runs under another name: the same models, read in another way."""

    row: str
    under: str


class Row(_Plain):
    """A method, and its published numbers as printed, if there are any."""

    words: str
    published: Mapping[str, str] = {}
    note: str = ""
    reads: Reading | None = None  # a row without runs of its own


class Baseline(_Plain):
    """A training-free score, read from the records of one method."""

    words: str
    method: str
    score: str


class Settled(_Plain):
    """A condition that the paper does not name: the one at which a row comes nearest to its published number.

    `metric` has `{}` where the condition goes.
    """

    metric: str
    row: str
    column: str


class Table(_Plain):
    """A table: where its pictures come from, its columns and its rows, in the order in which they are shown."""

    name: str
    file: Path
    title: str
    source: str
    experiment: str  # one of howsure.bench.experiments.EXPERIMENTS
    recipe: str  # recipes/NAME.toml, beside the table or shipped
    models: str | None = None  # the table whose models are used, where this one has none of its own
    data: Mapping[str, str]  # a source of pictures for every role
    classes: Mapping[str, tuple[int, int]] = {}  # for some roles only classes from a to b, in alphabetical order
    seeds: tuple[int, ...]
    quick_every: int = Field(ge=1)  # a quick run takes one picture in so many
    scores: tuple[str, ...] = ("novelty", "ambiguity")
    columns: Mapping[str, Column]
    rows: Mapping[str, Row]
    baselines: tuple[Baseline, ...] = ()
    settled: Mapping[str, Settled] = {}
    summary: tuple[str, ...] = ()  # columns for a page that has little room
    notes: tuple[str, ...] = ()

    @property
    def methods(self) -> list[str]:
        """The rows that have runs of their own."""
        return [name for name, row in self.rows.items() if row.reads is None]

    def entries(self, *, seed: int, quick: bool = False) -> dict[str, Entry]:
        """How the model of each row is made."""
        found = read_entries(self.recipe, beside=self.file.parent, seed=seed, quick=quick)
        missing = [name for name in self.methods if name not in found]
        if missing:
            raise InputError(f"recipes {self.recipe}", expected=f"all rows of {self.name}", got=f"no {missing[0]}")
        return {name: found[name] for name in self.methods}

    def cells(self, methods: Iterable[str] | None = None, seeds: Sequence[int] | None = None) -> list[Cell]:
        """The runs of these rows, or of all, and of those whose models they start from; these come first."""
        seeds = tuple(sorted(set(self.seeds if seeds is None else seeds)))
        entries = self.entries(seed=0)
        wanted: set[str] = set()
        for name in self.methods if methods is None else methods:
            if name not in self.methods:
                fix = did_you_mean(name, self.methods)
                raise InputError("method", expected=" or ".join(self.methods), got=repr(name), fix=fix)
            wanted |= {name, *_starts(entries, name)}
        order = sorted(
            wanted, key=lambda name: (len(_starts(entries, name)), entries[name].is_ensemble, self.methods.index(name))
        )
        cells = []
        for name in order:
            if not entries[name].is_ensemble:
                cells += [Cell(name, (seed,)) for seed in seeds]
            elif len(seeds) > 1:
                cells.append(Cell(name, seeds))
        return cells


@dataclass(frozen=True)
class Cell:
    """One run: a method with a seed, or an ensemble with all of them."""

    method: str
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of its record and of its model.

        >>> Cell("point", (0,)).name, Cell("ensemble", (0, 1)).name
        ('point-seed-0', 'ensemble-seeds-0-1')
        """
        return f"{self.method}-seed{'s' * (len(self.seeds) > 1)}-{'-'.join(map(str, self.seeds))}"


def table_names() -> list[str]:
    """The tables that come with the package."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def table_named(name: str | Path) -> Table:
    """A shipped table, or one in a TOML file of your own."""
    file = Path(name) if str(name).endswith(".toml") else SHIPPED / f"{name}.toml"
    if not file.is_file():
        known = table_names()
        raise InputError(
            "table",
            expected=f"{', '.join(known)}, or a TOML file",
            got=str(name),
            fix=did_you_mean(str(name), known),
        )
    keys = _keys(file)
    try:
        table = Table.model_validate({"name": file.stem, "recipe": file.stem} | keys | {"file": file})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"table {file}: {where}", expected=first["msg"].lower(), got=repr(first["input"])) from error
    _check_names(table)
    return table


def _keys(file: Path) -> dict[str, Any]:
    """`extends` starts from another table; of its columns single keys can be changed, everything else is replaced."""
    keys = read_toml("table", file)
    base = keys.pop("extends", None)
    if base is None:
        return keys
    beside = file.parent / f"{base}.toml"
    under = _keys(beside if beside.is_file() else SHIPPED / f"{base}.toml")
    columns = dict(under["columns"])
    for name, column in keys.get("columns", {}).items():
        columns[name] = columns.get(name, {}) | column
    return under | keys | {"columns": columns}


def _check_names(table: Table) -> None:
    """Every name that one part of a table uses for another must be there."""
    used = [(f"rows.{name}", "columns", column) for name, row in table.rows.items() for column in row.published]
    used += [(f"settled.{name}", "columns", settled.column) for name, settled in table.settled.items()]
    used += [(f"settled.{name}", "rows", settled.row) for name, settled in table.settled.items()]
    used += [(f"baseline {baseline.words}", "rows", baseline.method) for baseline in table.baselines]
    used += [("summary", "columns", column) for column in table.summary]
    used += [(f"rows.{name}.reads", "methods", row.reads.row) for name, row in table.rows.items() if row.reads]
    for where, what, name in used:
        known = list(getattr(table, what))
        if name not in known:
            raise InputError(
                f"table {table.file}: {where}", expected=f"one of its {what}", got=name, fix=did_you_mean(name, known)
            )


def _starts(entries: Mapping[str, Entry], name: str) -> list[str]:
    """The rows whose models this one starts from, nearest first."""
    start = entries[name].start
    if start is None:
        return []
    if start not in entries:
        raise InputError(f"recipe of {name}", expected="a row of the table to start from", got=start)
    return [start, *_starts(entries, start)]
