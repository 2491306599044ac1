"""Our runs against a published table: means over seeds, published numbers, and a verdict on each of these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal, get_args

from howsure.bench.plan import Column, Settled, Table
from howsure.errors import InputError

__all__ = ["VERDICTS", "Comparison", "Line", "Record", "Value", "compare", "number", "read_records"]

Record = dict[str, Any]
Verdict = Literal["beaten", "reached", "not reached", "not run", "settled by it", "other data", ""]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)[:-1]


@dataclass(frozen=True)
class Value:
    """A cell of the table: ours over seeds, what was printed there, and how they compare."""

    mean: float | None = None
    deviation: float | None = None  # over seeds; None for one
    seeds: int = 0
    metric: str = ""
    published: str = ""
    verdict: Verdict = ""

    @property
    def ours(self) -> str:
        """Mean ± standard deviation over seeds.

        >>> Value(mean=0.81234, deviation=0.004, seeds=5).ours
        '0.812 ± 0.004'
        """
        if self.mean is None:
            return "-"
        return f"{self.mean:.3f}" + ("" if self.deviation is None else f" ± {self.deviation:.3f}")


@dataclass(frozen=True)
class Line:
    """A row: a method, a training-free score, or chance."""

    words: str
    kind: Literal["method", "free", "chance"]
    values: Mapping[str, Value]  # by column
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """A table, its rows, and the conditions that its own data settled."""

    table: Table
    lines: tuple[Line, ...]
    settled: Mapping[str, str]
    records: Mapping[str, Sequence[Record]] = field(repr=False)

    def runs(self) -> dict[str, Sequence[Record]]:
        """The records of the rows that have runs of their own."""
        return {name: self.records.get(name, ()) for name in self.table.methods}

    def published_columns(self) -> list[str]:
        """Columns in which something was printed."""
        return [name for name in self.table.columns if any(name in row.published for row in self.table.rows.values())]

    def further_columns(self) -> list[str]:
        """The others, if there is anything in them."""
        filled = {name for line in self.lines for name, value in line.values.items() if value.mean is not None}
        return [name for name in self.table.columns if name in filled and name not in self.published_columns()]

    def count(self, verdict: Verdict) -> int:
        """How many printed numbers have that verdict."""
        return sum(value.verdict == verdict for line in self.lines for value in line.values.values())

    def verdicts(self) -> str:
        """The verdicts on all published numbers, counted."""
        counts = [f"{self.count(verdict)} {verdict}" for verdict in VERDICTS if self.count(verdict)]
        return ", ".join(counts) or "nothing was published"


def read_records(table: Table, folder: Path) -> dict[str, list[Record]]:
    """The records of each row, by seed; of an ensemble only the record with the most members."""
    found: dict[str, list[Record]] = {name: [] for name in table.rows}
    for file in sorted(folder.glob("*.json")):
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            found.get(record["method"], []).append(record | {"seeds": tuple(record["seeds"])})
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file}", expected="the record of a run", got=str(error), fix="remove it") from error
    for records in found.values():
        most = max((len(record["seeds"]) for record in records), default=1)
        records[:] = sorted(
            (record for record in records if len(record["seeds"]) == most), key=lambda record: record["seeds"]
        )
        del records[1 if most > 1 else len(records) :]
    for name, row in table.rows.items():
        if row.reads:
            prefix = f"{row.reads.under}."
            for record in found[row.reads.row]:
                kept = {key: value for key, value in record["metrics"].items() if key.startswith(prefix)}
                metrics = {key.removeprefix(prefix): value for key, value in kept.items()}
                found[name].append(record | {"metrics": metrics, "curves": {}})
    return found


def compare(table: Table, records: Mapping[str, Sequence[Record]]) -> Comparison:
    """Every row of a table as the records have it."""
    settled = {name: condition for name, rule in table.settled.items() if (condition := _settle(table, records, rule))}
    lines = [
        Line(row.words, "method", _values(table, records.get(name, ()), settled, row=name), row.note)
        for name, row in table.rows.items()
    ]
    for free in table.baselines:
        values = _values(table, records.get(free.method, ()), settled, scores=(free.score,))
        if any(value.mean is not None for value in values.values()):
            lines.append(Line(free.words, "free", values))
    chance = {
        name: Value(mean=level)
        for name, column in table.columns.items()
        if (level := _chance(column, records)) is not None
    }
    if chance:
        lines.append(Line("chance", "chance", chance))
    return Comparison(table, tuple(lines), settled, records)


def _values(
    table: Table,
    records: Sequence[Record],
    settled: Mapping[str, str],
    *,
    row: str | None = None,
    scores: Iterable[str] | None = None,
) -> dict[str, Value]:
    """The cells of a row; a training-free score only has those that are about scores."""
    values = {}
    for name, column in table.columns.items():
        metrics = column.metrics if scores is None else [metric for metric in column.metrics if "{score}" in metric]
        names = _names(metrics, table.scores if scores is None else tuple(scores), settled)
        metric = next((one for one in names if records and all(one in record["metrics"] for record in records)), "")
        found = [float(record["metrics"][metric]) for record in records] if metric else []
        printed = table.rows[row].published.get(name, "") if row else ""
        settles = any((rule.row, rule.column) == (row, name) for rule in table.settled.values())
        value = Value(
            mean=mean(found) if found else None,
            deviation=stdev(found) if len(found) > 1 else None,
            seeds=len(found),
            metric=metric,
            published=printed,
            verdict=_verdict(column, found, printed, settles=settles),
        )
        values[name] = value
    return values


def _names(metrics: Iterable[str], scores: Sequence[str], settled: Mapping[str, str]) -> list[str]:
    """Metrics with their conditions and scores filled in; one whose condition is not settled is left out."""
    filled = []
    for metric in metrics:
        name = metric
        for condition, value in settled.items():
            name = name.replace(f"{{{condition}}}", value)
        filled += [name.replace("{score}", score) for score in scores] if "{score}" in name else [name]
    return [name for name in filled if "{" not in name]


def _settle(table: Table, records: Mapping[str, Sequence[Record]], rule: Settled) -> str | None:
    """The condition at which a row comes nearest to its published number; None without records or without number."""
    printed, found = table.rows[rule.row].published.get(rule.column), records.get(rule.row, ())
    if not printed or not found:
        return None
    before, after = rule.metric.split("{}")
    conditions = {
        name[len(before) : len(name) - len(after)]
        for name in found[0]["metrics"]
        if name.startswith(before) and name.endswith(after)
    } - {"clean"}

    def off(condition: str) -> float:
        return abs(mean(record["metrics"][f"{before}{condition}{after}"] for record in found) - number(printed))

    return min(sorted(conditions), key=off, default=None)


def _chance(column: Column, records: Mapping[str, Sequence[Record]]) -> float | None:
    """What guessing reaches."""
    if not isinstance(column.chance, str):
        return column.chance
    held = (record["metrics"] for found in records.values() for record in found)
    return next((metrics[column.chance] for metrics in held if column.chance in metrics), None)


def _verdict(column: Column, found: Sequence[float], printed: str, *, settles: bool) -> Verdict:
    """To as many digits as were printed: better, equal, or worse."""
    if not printed:
        return ""
    if not found:
        return "not run"
    if settles:
        return "settled by it"
    if not column.comparable:
        return "other data"
    digits = len(printed.split()[0].partition(".")[2])
    gap = round(mean(found), digits) - number(printed)
    if abs(gap) < 0.5 * 10**-digits:
        return "reached"
    return "beaten" if (gap > 0) == (column.better == "high") else "not reached"


def number(printed: str) -> float:
    """The value of a printed number, without its deviation.

    >>> number("0.78 ± 0.01")
    0.78
    """
    return float(printed.split()[0])
