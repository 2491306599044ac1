"""Experiments, one file each: `run(work)` trains and evaluates, and returns what goes into the record.

`metrics` are numbers by name; beside them whatever a page needs, `curves` for example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from howsure.bench.work import Work
from howsure.data.suggest import did_you_mean
from howsure.errors import InputError

__all__ = ["EXPERIMENTS", "experiment_named", "flat"]

EXPERIMENTS = ("lam", "n-digit", "mlp", "centroids", "few-shot", "sweep")  # each a module of this package


def experiment_named(name: str) -> Callable[[Work], dict[str, Any]]:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        fix = did_you_mean(name, EXPERIMENTS)
        raise InputError("experiment", expected=" or ".join(EXPERIMENTS), got=name, fix=fix)
    run: Callable[[Work], dict[str, Any]] = import_module(f"{__name__}.{name.replace('-', '_')}").run
    return run


def flat(found: Mapping[str, Any], under: str = "") -> dict[str, float]:
    """Numbers in mappings of mappings, by names with dots; what is not defined is left out.

    >>> flat({"seen": {"clean": {"ap": 0.5, "tau": None}}})
    {'seen.clean.ap': 0.5}
    """
    out: dict[str, float] = {}
    for name, value in found.items():
        if isinstance(value, Mapping):
            out |= flat(value, f"{under}{name}.")
        elif value is not None:
            out[f"{under}{name}"] = value
    return out
