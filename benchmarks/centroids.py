"""Centroids with von Mises-Fisher confidence beside cross-entropy with softmax probability, on real pictures.

`python benchmarks/centroids.py [--set mnist|cifar10] [--seeds 0 1 2] [--quick] [--json] [--figure FILE] [--out FOLDER]`

Same body, same pictures in the same order, same number of steps. Nothing is chosen by the test pictures: what was
chosen, and on what, is in docs/catalogue.md. Every trial becomes a JSON file in the folder (default results/centroids;
with --quick nothing is written unless asked for); trials that are there already are read, not repeated. Needs
HOWSURE_DATA.
"""

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from form import Row, at_least

from howsure.bench.centroids import SOFTMAX, Contender, contend, encoded, trial
from howsure.bench.confidence_figure import confidence_figure
from howsure.bench.record import write_record
from howsure.bench.sets import Sets
from howsure.data import ImageSet, load
from howsure.recipe import Recipe, recipe_for

FOLDER = Path(__file__).parents[1] / "results" / "centroids"
SOURCES = {
    "mnist": ("mnist:train", "mnist:test", "fashion-mnist:test"),
    "cifar10": ("cifar10:train", "cifar10:test", "svhn:test"),
}
TRIALS = {
    "mnist": [
        (SOFTMAX, 0), ("centroids", 2), ("centroids", 16), ("centroids", 1024),
        ("centroids-ce", 2), ("centroids-ce", 16), ("centroids-ce", 1024),
    ],
    "cifar10": [(SOFTMAX, 0), ("centroids", 16), ("centroids-ce", 16)],
}  # fmt: skip
SHOWN = ("accuracy", "accuracy_at_80", "aurc", "auroc", "fpr95", "ece", "brier", "ece_calibrated", "brier_calibrated")


def recipe_of(which: str, *, seed: int) -> Recipe:
    """`every` lets the published schedule of the centroids end shortly before the run does."""
    settings: dict[str, dict[str, Any]] = {
        "mnist": {"backbone": "n-digit", "epochs": 1, "pictures_per_class": 12, "loss_options": {"every": 30}},
        "cifar10": {"backbone": "lam-cifar", "epochs": 2, "pictures_per_class": 12, "loss_options": {"every": 50}},
    }
    rate = {"mnist": 3e-3, "cifar10": 1e-3}[which]
    base = recipe_for(which).but(loss="centroids", classes_per_batch=10, learning_rate=rate, seed=seed)
    return base.but(**settings[which])


def sets_of(which: str, *, quick: bool) -> Sets:
    train, test, unfamiliar = map(load, SOURCES[which])
    if not quick:
        return Sets(train, test, unfamiliar)
    return Sets(_some(train, 12_000), _some(test, 1_000), _some(unfamiliar, 1_000))


def _some(images: ImageSet, count: int) -> ImageSet:
    return images.subset(np.sort(np.random.default_rng(0).permutation(len(images))[:count]))


def measured(which: str, seeds: list[int], *, quick: bool, out: Path | None) -> list[dict[str, Any]]:
    sets, records = sets_of(which, quick=quick), []
    for name, dim in TRIALS[which][: 2 if quick else None]:
        for seed in seeds:
            file = out and out / f"{which}-{name}-{dim}-{seed}.json"
            if file and file.exists():
                records.append(json.loads(file.read_text()))
                continue
            recipe = recipe_of(which, seed=seed)
            if quick:
                recipe = recipe.but(loss_options={"every": 6})
            records.append(trial(contend(name, sets.training, recipe.but(dim=dim or None)), sets))
            if file:
                write_record(file, records[-1])
            print(f"{which} {name} {dim} {seed}: {short(records[-1]['metrics'])}", file=sys.stderr)
    return records


def short(metrics: dict[str, float]) -> str:
    return ", ".join(f"{key} {metrics[key]:.4f}" for key in SHOWN[:5])


def grouped(records: list[dict[str, Any]]) -> dict[str, list[dict[str, float]]]:
    """The metrics of all seeds, by contender; the softmax of the cross-entropy network stands first."""
    groups: dict[str, list[dict[str, float]]] = defaultdict(list)
    for record in records:
        dim = "" if record["contender"] == SOFTMAX else f" D={record['dim']}"
        groups[record["contender"] + dim].append(record["metrics"])
        if "softmax_metrics" in record:
            groups[f"{record['contender']}{dim}, its softmax"].append(record["softmax_metrics"])
    return groups


def rows_of(records: list[dict[str, Any]]) -> list[Row]:
    """Every mean beside the softmax's; nothing is promised, so there is no bar."""
    groups = grouped(records)
    means = {name: {key: float(np.mean([m[key] for m in found])) for key in SHOWN} for name, found in groups.items()}
    return [
        at_least(f"{name}: {key}, beside softmax", ours[key], means[SOFTMAX][key])
        for name, ours in means.items()
        if name != SOFTMAX
        for key in SHOWN
    ]


def table(records: list[dict[str, Any]]) -> str:
    """Mean ± standard deviation over seeds."""
    groups = grouped(records)
    lines = [("", *SHOWN, "AUROC > softmax")]
    reference = np.array([m["auroc"] for m in groups[SOFTMAX]])
    for name, found in groups.items():
        cells = [_cell(np.array([m[key] for m in found])) for key in SHOWN]
        wins = "" if name == SOFTMAX else _verdict(np.array([m["auroc"] for m in found]), reference)
        lines.append((name, *cells, wins))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _cell(values: np.ndarray) -> str:
    return f"{values.mean():.4f}" + (f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else "")


def _verdict(values: np.ndarray, reference: np.ndarray) -> str:
    pairs = min(len(values), len(reference))
    wins = int((values[:pairs] > reference[:pairs]).sum())
    return f"{wins} of {pairs}"


def draw(file: Path, *, quick: bool) -> None:
    """Train both in two dimensions, and draw what they say about digits and clothes."""
    sets, recipe = sets_of("mnist", quick=quick), recipe_of("mnist", seed=0)
    pair: dict[str, Contender] = {
        "expected cosine, centroids D = 2": contend("centroids", sets.training, recipe.but(dim=2)),
        "softmax probability": contend(SOFTMAX, sets.training, recipe),
    }
    beliefs = {
        title: [encoded(c.embedder, images)[0] for images in (sets.test, sets.unfamiliar)] for title, c in pair.items()
    }
    said = {title: (c.says(beliefs[title][0]), c.says(beliefs[title][1])) for title, c in pair.items()}
    known, other = next(iter(beliefs.values()))
    labels = np.array([int(str(label)) for label in sets.test.labels])
    figure = confidence_figure(said, (known, labels, other), names=("MNIST", "Fashion-MNIST"))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SOURCES), default="mnist")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="fewer pictures, one seed, two contenders")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--figure", type=Path, help="draw histograms and circle into this file instead")
    parser.add_argument("--out", type=Path, help="folder of the JSON files")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same numbers on every machine with these versions
    if options.figure:
        draw(options.figure, quick=options.quick)
        return
    out = options.out or (None if options.quick else FOLDER)
    seeds = options.seeds[:1] if options.quick else options.seeds
    records = measured(options.set, seeds, quick=options.quick, out=out)
    print(json.dumps([asdict(row) for row in rows_of(records)], indent=1) if options.json else table(records))


if __name__ == "__main__":
    main()
