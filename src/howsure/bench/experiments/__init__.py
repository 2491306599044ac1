"""What is done with the model of a run, one file an experiment: `run(work)` gives what goes into its record.

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

EXPERIMENTS = {
    "lam": "lam",
    "n-digit": "n_digit",
    "mlp": "mlp",
    "centroids": "centroids",
    "few-shot": "few_shot",
    "sweep": "sweep",
}  # names to modules of this package


def experiment_named(name: str) -> Callable[[Work], dict[str, Any]]:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        known = list(EXPERIMENTS)
        raise InputError("experiment", expected=" or ".join(known), got=name, fix=did_you_mean(name, known))
    run: Callable[[Work], dict[str, Any]] = import_module(f"{__name__}.{EXPERIMENTS[name]}").run
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
