"""The form of all benchmarks: `python benchmarks/NAME.py [--quick] [--json]`.

Ours and a reference are measured in one run. The result is a table, or with `--json` one JSON list of
`{what, ours, reference, ratio, bar, holds}`. The exit code is 1 if a bar does not hold.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Row:
    what: str
    ours: float
    reference: float
    ratio: float
    bar: float | None
    holds: bool | None


def at_most(what: str, ours: float, reference: float, bar: float | None = None) -> Row:
    """A cost: ours / reference should not exceed the bar. Without a bar the row only informs."""
    ratio = _ratio(ours, reference)
    return Row(what, ours, reference, ratio, bar, None if bar is None else ratio <= bar)


def at_least(what: str, ours: float, reference: float, bar: float | None = None) -> Row:
    """A gain: ours / reference should reach the bar. Without a bar the row only informs."""
    ratio = _ratio(ours, reference)
    return Row(what, ours, reference, ratio, bar, None if bar is None else ratio >= bar)


def _ratio(ours: float, reference: float) -> float:
    if reference:
        return ours / reference
    return 1.0 if ours == 0 else float("inf")


def alternately(
    ours: Callable[[], object],
    reference: Callable[[], object],
    times: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """The best time of each, in seconds. They take turns, so that a noisy machine disturbs both alike.

    With `clock=time.process_time` other programs do not count; fair where both sides run on one thread.
    """
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(times + 1):
        for function, seconds in zip((ours, reference), spent, strict=True):
            start = clock()
            function()
            seconds.append(clock() - start)
    return min(spent[0][1:]), min(spent[1][1:])  # the first turn warms up


def run(measure: Callable[[bool], Sequence[Row]]) -> None:
    """Read the command line, call `measure(quick)`, report, exit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under 50 seconds")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args()
    report(measure(options.quick), as_json=options.json)


def report(rows: Sequence[Row], *, as_json: bool) -> NoReturn:
    """Print them, and exit with 1 where a bar is missed."""
    print(json.dumps([asdict(row) for row in rows], indent=1) if as_json else table(rows))
    sys.exit(any(row.holds is False for row in rows))


def table(rows: Sequence[Row]) -> str:
    verdicts = {True: "yes", False: "NO", None: ""}
    lines = [("what", "ours", "reference", "ratio", "bar", "holds")]
    for row in rows:
        numbers = [f"{value:.4g}" for value in (row.ours, row.reference, row.ratio)]
        lines.append((row.what, *numbers, "" if row.bar is None else f"{row.bar:g}", verdicts[row.holds]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
