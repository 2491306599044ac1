"""A table of digits that takes seconds, and records that nobody had to run for."""

import json
from pathlib import Path
from typing import Any

from howsure.bench.plan import Cell, Table, table_named

TABLE = """
title = "Digits, two of them OOD"
source = "a paper"
experiment = "lam"
recipe = "tiny"
seeds = [0, 1]
quick_every = 2
data = { training = "digits:train@!8,9", test = "digits:test@!8,9", unfamiliar = "digits:test@8,9" }

[columns.first]
words = "mAP@1"
metrics = ["recall_at_1"]
better = "high"
convention = "recall@1"

[columns.auroc]
words = "AUROC"
metrics = ["{score}.auroc"]
better = "high"
convention = "positive = OOD"
chance = 0.5

[columns.auprc]
words = "AUPRC"
metrics = ["{score}.auprc"]
better = "high"
convention = "trapezoid"
chance = "base_rate"

[columns.brier]
words = "Brier"
metrics = ["brier"]
better = "low"
convention = "of P(right)"

[[baselines]]
words = "nearest neighbour"
method = "point"
score = "top1_distance"

[rows.point]
words = "Points"
published = { first = "0.50 ± 0.01" }

[rows.laplace]
words = "Laplace"
published = { first = "0.99", auroc = "0.60", brier = "0.5" }

[rows.ensemble]
words = "Ensemble"
"""

RECIPES = """
extends = "digits"

[base]
backbone = "mlp"
dim = 3
epochs = 2

[methods.point]
method = "point"

[methods.laplace]
start = "point"
posterior = "laplace"

[methods.ensemble]
start = "laplace"
posterior = "ensemble"

[quick]
epochs = 1
"""


def tiny_table(folder: Path, *, recipes: str = RECIPES) -> Table:
    (folder / "recipes").mkdir(parents=True)
    (folder / "tiny.toml").write_text(TABLE, encoding="utf-8")
    (folder / "recipes" / "tiny.toml").write_text(recipes, encoding="utf-8")
    return table_named(folder / "tiny.toml")


def write_result(folder: Path, method: str, seeds: tuple[int, ...], metrics: dict[str, float], **more: Any) -> Path:
    """A record as a run would have written it, as far as tables and pages read it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{Cell(method, seeds).name}.json"
    record = {"method": method, "seeds": seeds, "metrics": metrics, "versions": {"torch": "2"}, "commit": "abc"}
    file.write_text(json.dumps(record | more))
    return file
