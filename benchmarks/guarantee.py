"""Do the promises hold, and how much is answered at that price? Random calibration sets from six worlds of pictures.

`python benchmarks/guarantee.py [--worlds NAME...] [--splits N] [--quick] [--json] [--out FILE]`

A world is a gallery, queries of known and of unknown identities (a fifth), and unrelated pictures. All are searched
once. A split draws a calibration set by lot; the policy's rule is proved on it and judged on the other queries, which
are the future. Beside it, training-free scores, proved by the same test on the same split, all queries testing: top-1
distance, ratio to the next identity, margin, distance to the 5th neighbour, agreement of ten neighbours.

Where there are ten kinds, which three of them are unknown decides much: kinds take turns, a tenth of the splits each.

*Violation*: the error among the matches of the future is above the tolerated one. The future is finite, so this happens
a little more often than the promise is broken. *Coverage*: the share of the future that gets a match, over all splits;
no promise counts as 0. Records go to results/guarantee.json; cells that are there are not repeated.

Scores, thresholds and shares of risk were chosen on `birds`, `clothes` and `faces`, how far off a query is also on
`objects` and `birds-laplace`; `people` took no part.
Needs HOWSURE_DATA and the extra `pretrained`; features are kept in the user's cache folder.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from birds import CACHE, Birds, Setting, closed_form, network, spec_of
from form import Row, at_least, at_most, report
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.backbones import remembering
from howsure.bench.record import write_record
from howsure.data import ImageSet, InputSpec, load, stream
from howsure.decide.calibration import prove
from howsure.decide.certificate import Wanted
from howsure.decide.certify import grid_of, widest_threshold
from howsure.decide.evidence import FEATURES
from howsure.decide.held_out import HeldOut
from howsure.decide.learning import Ways, learn
from howsure.decide.searched import Searched, ranked, searched
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, Point, cat
from howsure.errors import CalibrationError
from howsure.neighbours import neighbours
from howsure.posteriors import laplace
from howsure.posteriors.laplace.learned_variance import with_learned_variance

FILE = Path(__file__).parents[1] / "results" / "guarantee.json"
CONFIDENCE, UNKNOWN, UNRELATED = 0.95, 0.2, 1_000
TOLERATED, SIZES = (0.05, 0.1, 0.2), (300, 600, 2_000)
LEAST_FUTURE = 500
SPLITS, QUICK_SPLITS = 100, 20
FREE = {"top-1 distance": "distance", "ratio": "ratio", "margin": "margin", "kNN 5 distance": "neighbour distance"}


@dataclass(frozen=True, eq=False)
class World:
    """Everything searched once; splits choose rows of the queries."""

    held: HeldOut
    ways: Ways
    unrelated: dict[str, Searched]  # by ranking
    facts: dict[str, Any]


def world(
    query: Embedding, labels: Sequence[Any], gallery: Embedding, identities: Sequence[Any], *, unrelated: Embedding
) -> World:
    """Unknown queries are thinned out by lot until they are a fifth of all."""
    names, theirs = (np.array([str(name) for name in some], dtype=object) for some in (labels, identities))
    known, rng = np.isin(names, theirs), np.random.default_rng(0)
    unknown = rng.permutation(np.flatnonzero(~known))
    rows = np.sort(np.append(np.flatnonzero(known), unknown[: round(known.sum() * UNKNOWN / (1 - UNKNOWN))]))
    held = HeldOut.split(query[rows], names[rows].tolist(), theirs.tolist(), unknown_rate=0.0, rng=rng)
    ways = Ways.of(held, gallery, theirs, unknown_rate=UNKNOWN, rng=rng)
    far = {}
    for by, unit in ways.units.items():
        near = neighbours(ranked(unrelated, by), ranked(gallery, by))
        far[by] = searched(unrelated, gallery, theirs, near, by=by, unit=unit)
    recall = {by: float((done.best == held.wanted)[held.known].mean()) for by, done in ways.held.items()}
    facts = {
        "gallery": len(theirs),
        "identities": len({*theirs.tolist()}),
        "queries": len(rows),
        "unknown_rate": float(1 - held.known.mean()),
        "unrelated": len(unrelated),
        "recall_at_1": recall,
    }
    return World(held, ways, far, facts)


# The worlds.


@torch.no_grad()
def features_of(images: ImageSet, spec: InputSpec) -> Tensor:
    """(N, 1280) of the pretrained network, computed once, then read from the cache."""
    with remembering(CACHE):
        return torch.cat([network()(spec.normalise(chunk.pixels)) for chunk in stream(images, spec, strict=True)])


def some(images: ImageSet, count: int) -> ImageSet:
    return images.subset(np.sort(np.random.default_rng(0).permutation(len(images))[:count]))


def unknown_kinds(images: ImageSet, turn: int) -> set[str | None]:
    return {images.classes[(turn + step) % len(images.classes)] for step in (0, 3, 7)}


def world_of_kinds(images: ImageSet, points: Embedding, *, turn: int, unrelated: Embedding) -> World:
    """Three of ten kinds are unknown; 1,000 pictures of the others are the gallery."""
    kinds, unknown = np.array([str(label) for label in images.labels], object), unknown_kinds(images, turn)
    known = np.random.default_rng(turn).permutation(np.flatnonzero(~np.isin(kinds, [*map(str, unknown)])))
    there, asked = known[:1_000], np.setdiff1d(np.arange(len(kinds)), known[:1_000])
    return world(points[asked], kinds[asked], points[there], kinds[there], unrelated=unrelated)


def enrolled(labels: np.ndarray, known: np.ndarray, *, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a gallery, so many of every known identity, and all other rows."""
    rng, there = np.random.default_rng(0), []
    for name in np.unique(labels[known]):
        there += rng.permutation(np.flatnonzero(labels == name))[:each].tolist()
    return np.array(sorted(there)), np.setdiff1d(np.arange(len(labels)), there)


def lengths_one(features: Tensor) -> Point:
    return Point(F.normalize(features, dim=1))


def birds_and_scenes() -> tuple[Birds, np.ndarray, np.ndarray, Tensor]:
    """CUB at 192 pixels, species 1 to 100 known, fifteen pictures each; scenes are unrelated."""
    images, spec = load("cub:all"), spec_of(224)
    species = np.array([int(str(label).split(".")[0]) for label in images.labels])
    there, asked = enrolled(species, species <= 100, each=15)
    return (
        Birds(features_of(images, spec), species),
        there,
        asked,
        features_of(some(load("flickr8k:all"), UNRELATED), spec),
    )


def birds(_: int) -> World:
    """Vectors of a pretrained network, as they are."""
    seen, there, asked, scenes = birds_and_scenes()
    points = lengths_one(seen.features)
    return world(points[asked], seen.species[asked], points[there], seen.species[there], unrelated=lengths_one(scenes))


def birds_laplace(_: int) -> World:
    """A layer learned from the gallery's pictures, and its posterior."""
    seen, there, asked, scenes = birds_and_scenes()
    # A tenth of the known queries tunes the posterior, and asks nothing.
    known = np.random.default_rng(1).permutation(asked[seen.species[asked] <= 100])
    held = known[: len(known) // 10]
    asked = np.setdiff1d(asked, held)
    made = partial(embeddings_of, seen, learn=there, held=held, shrink=3.0)
    query, gallery, far = made(ask=[seen.features[asked], seen.features[there], scenes])
    return world(query, seen.species[asked], gallery, seen.species[there], unrelated=far)


def faces(_: int) -> World:
    """LFW by histograms of gradients and a learned layer; people with half of their pictures in the gallery."""
    images, rng = load("lfw"), np.random.default_rng(0)
    spec = InputSpec(64, 64, 1, (0.0,), (1.0,))
    who = np.unique(images.labels, return_inverse=True)[1]
    order = rng.permutation(who.max() + 1)
    tuning, known, _ = np.split(order, [150, len(order) * 2 // 3])
    there = []
    for person in known:
        rows = rng.permutation(np.flatnonzero(who == person)).tolist()
        there += rows[: (len(rows) + 1) // 2]
    held = np.flatnonzero(np.isin(who, tuning))
    asked = np.setdiff1d(np.arange(len(who)), [*there, *held.tolist()])

    def described(pictures: ImageSet) -> Tensor:
        with torch.no_grad():
            return torch.cat([face(spec.normalise(part.pixels)) for part in stream(pictures, spec, strict=True)])

    seen, scenes = Birds(described(images), who), described(some(load("flickr8k:all"), UNRELATED))
    made = partial(embeddings_of, seen, learn=np.array(there), held=held, shrink=10.0)
    query, gallery, far = made(ask=[seen.features[asked], seen.features[there], scenes])
    return world(query, who[asked], gallery, who[there], unrelated=far)


@cache
def clothes_and_digits() -> tuple[ImageSet, Embedding, Embedding]:
    train, test, digits = load("fashion-mnist:train"), load("fashion-mnist:test"), some(load("mnist:test"), UNRELATED)

    def pixels(images: ImageSet) -> np.ndarray:
        return np.stack([np.asarray(images.image(row)) for row in range(len(images))]).reshape(len(images), -1) / 255.0

    x = pixels(some(train, 5_000))
    centre = x.mean(0)
    axes = np.linalg.svd(x - centre, full_matrices=False)[2][:50].T
    points, far = (lengths_one(torch.from_numpy((pixels(part) - centre) @ axes)) for part in (test, digits))
    return test, points, far


def clothes(turn: int) -> World:
    """Fashion-MNIST: fifty principal components of the pixels; digits are unrelated."""
    images, points, far = clothes_and_digits()
    return world_of_kinds(images, points, turn=turn, unrelated=far)


def people(_: int) -> World:
    """Market-1501: half of the people known, four pictures each; birds are unrelated."""
    images, spec = load("market1501"), replace(spec_of(256), width=128)
    who = np.array([str(label) for label in images.labels])
    there, asked = enrolled(who, np.isin(who, np.unique(who)[::2]), each=4)
    points = lengths_one(features_of(images, spec))
    far = lengths_one(features_of(some(load("cub:all"), UNRELATED), spec))
    return world(points[asked], who[asked], points[there], who[there], unrelated=far)


@cache
def objects_and_numbers() -> tuple[ImageSet, Embedding, Embedding]:
    images, spec = some(load("cifar10:test"), 6_000), spec_of(128)
    numbers = some(load("svhn:test"), UNRELATED)
    return images, lengths_one(features_of(images, spec)), lengths_one(features_of(numbers, spec))


def objects(turn: int) -> World:
    """CIFAR-10 at 128 pixels through a pretrained network; numbers are unrelated."""
    images, points, far = objects_and_numbers()
    return world_of_kinds(images, points, turn=turn, unrelated=far)


WORLDS: dict[str, Callable[[int], World]] = {
    "birds": birds,
    "birds-laplace": birds_laplace,
    "faces": faces,
    "clothes": clothes,
    "people": people,
    "objects": objects,
}
TURNS = {"clothes": 10, "objects": 10}  # of the others there are enough identities for one to be like another


def in_turns(name: str) -> list[World]:
    """A world, once for each turn."""
    return [WORLDS[name](turn) for turn in range(TURNS.get(name, 1))]


class Gradients(nn.Module):
    """Histograms of gradient directions in cells of 8 x 8 pixels, blocks of 2 x 2 cells brought to one length."""

    directions, cell = 9, 8

    def forward(self, pixels: Tensor) -> Tensor:
        """(N, 1, H, W) to (N, M)."""
        slope = torch.tensor([[[[-1.0, 0.0, 1.0]]]])
        across, down = F.conv2d(pixels, slope, padding=(0, 1)), F.conv2d(pixels, slope.mT, padding=(1, 0))
        turn = torch.atan2(down, across).remainder(torch.pi) / torch.pi * self.directions
        away = (turn - torch.arange(self.directions)[:, None, None]).remainder(self.directions)
        near = (1 - torch.minimum(away, self.directions - away)).clamp(0)  # a direction between two counts for both
        cells = F.avg_pool2d(torch.hypot(across, down) * near, self.cell)
        blocks = cells.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).flatten(3)
        return (blocks / (blocks.sum(-1, keepdim=True) + 1e-4)).sqrt().flatten(1)


def face(pixels: Tensor) -> Tensor:
    """(N, 1, 64, 64) to (N, M): the middle of the picture and its mirror image, gradients of both averaged."""
    middle = pixels[..., 8:56, 8:56]
    return (Gradients()(middle) + Gradients()(middle.flip(-1))) / 2


@torch.no_grad()
def embeddings_of(
    seen: Birds, *, learn: np.ndarray, held: np.ndarray, shrink: float, ask: Sequence[Tensor]
) -> list[Embedding]:
    """Of what is asked, by one layer on features that was learned from some rows, and its posterior."""
    known, typical = seen.subset(learn), seen.subset(held)
    embedder = Embedder(nn.Flatten(), closed_form(known, replace(Setting(), shrink=shrink)), spec_of(64))
    with torch.enable_grad():
        pairs = known.batches(classes=8, per_class=32, seed=0)
        embedder = laplace.fit_posterior(embedder, pairs, structure="last-full")
        reference = [(typical.features, torch.from_numpy(typical.species))]
        head = with_learned_variance(laplace.with_novelty(embedder, reference), reference).head
    return [cat([head(part) for part in features.split(512)]) for features in ask]


# Judging.


@dataclass(frozen=True)
class Outcome:
    """What happened to the future of one split."""

    coverage: float  # share that gets a match
    error: float | None  # among the matches
    let_in: float = 0.0  # share of unknown identities that get a match
    called_unknown: float = 0.0  # share of known identities that are
    unrelated_unknown: float = 0.0
    candidate: str = ""


def outcome(match: np.ndarray, right: np.ndarray, known: np.ndarray, **more: Any) -> Outcome:
    """From the matches of the future."""
    error = float((~right)[match].mean()) if match.any() else None
    return Outcome(float(match.mean()), error, float(match[~known].mean()), **more)


def ours(world: World, now: np.ndarray, future: np.ndarray, *, max_error: float, seed: int) -> Outcome:
    """The rule that calibration would find on these queries. No promise, no answer."""
    held = world.held[now]
    learned = learn(world.ways.only(now), held, rng=np.random.default_rng(seed))
    by = learned.candidate.by
    coming, far = world.ways.held[by][future], world.unrelated[by]
    right, known = world.held.known[future] & (coming.best == world.held.wanted[future]), world.held.known[future]
    wanted = Wanted(max_error, CONFIDENCE)
    try:
        rule = prove(learned, held, wanted)
    except CalibrationError:
        return outcome(np.zeros(len(future), bool), right, known, candidate=learned.candidate.words)

    def matched(done: Searched) -> np.ndarray:
        score = learned.score.log_odds(done.evidence.features())
        return (done.evidence.remoteness < rule.reach) & (score >= -rule.proved.threshold)

    called = [np.zeros(len(done.best), bool) for done in (coming, far)]
    if rule.unknown is not None:
        called = [rule.unknown.holds(done.evidence) & ~matched(done) for done in (coming, far)]
    return outcome(
        matched(coming),
        right,
        known,
        called_unknown=float(called[0][known].mean()),
        unrelated_unknown=float(called[1].mean()),
        candidate=learned.candidate.words,
    )


def free(world: World, now: np.ndarray, future: np.ndarray, *, max_error: float) -> dict[str, Outcome]:
    """Scores of point estimates alone; practice queries fix which thresholds there are."""
    by = "mean" if "mean" in world.ways.units else "distance"
    done, practised = world.ways.held[by], world.ways.practised[by].evidence.features()
    features, right = done.evidence.features(), world.held.known & (done.best == world.held.wanted)
    columns = {name: FEATURES.index(feature) for name, feature in FREE.items()}
    scores = {name: (-practised[:, column], -features[:, column]) for name, column in columns.items()}
    agreement, ratio = FEATURES.index("neighbour agreement"), FEATURES.index("ratio")
    scores["neighbour agreement"] = tuple(-(x[:, agreement] + 1e-3 * x[:, ratio]) for x in (practised, features))
    found = {}
    for name, (fitted, score) in scores.items():
        limits = {"max_error": max_error, "confidence": CONFIDENCE}
        rule = widest_threshold(score[now], ~right[now], grid_of(fitted), **limits)
        match = score[future] <= (rule.threshold if rule else -np.inf)
        found[name] = outcome(match, right[future], world.held.known[future])
    return found


def judge(worlds: Sequence[World], *, size: int, max_error: float, splits: int) -> dict[str, Any]:
    """One cell: every way to answer over all splits, which take turns in the worlds."""
    ways: dict[str, list[Outcome]] = {}
    for seed in range(splits):
        world = worlds[seed % len(worlds)]
        now, future = np.split(np.random.default_rng(seed).permutation(len(world.held.wanted)), [size])
        found = {"howsure": ours(world, now, future, max_error=max_error, seed=seed)}
        for name, one in (found | free(world, now, future, max_error=max_error)).items():
            ways.setdefault(name, []).append(one)
    mine = np.array([one.coverage for one in ways["howsure"]])
    return {
        name: summary(outcomes, max_error=max_error) | ahead(mine - [one.coverage for one in outcomes])
        for name, outcomes in ways.items()
    }


def ahead(by: np.ndarray) -> dict[str, float]:
    """How much more of the future ours answers, on the same splits."""
    return {"ahead": float(by.mean()), "ahead_se": float(by.std(ddof=1) / len(by) ** 0.5)}


def summary(outcomes: Sequence[Outcome], *, max_error: float) -> dict[str, Any]:
    coverage = np.array([one.coverage for one in outcomes])
    promised = [one for one in outcomes if one.coverage > 0]
    chosen = [one.candidate for one in outcomes]
    return {
        "violations": sum(one.error is not None and one.error > max_error for one in outcomes),
        "promised": len(promised),
        "coverage": float(coverage.mean()),
        "coverage_se": float(coverage.std(ddof=1) / len(coverage) ** 0.5),
        "error": float(np.mean([one.error for one in promised])) if promised else None,
        "false_match_rate": float(np.mean([one.let_in for one in outcomes])),
        "called_unknown": float(np.mean([one.called_unknown for one in promised])) if promised else None,
        "unrelated_unknown": float(np.mean([one.unrelated_unknown for one in promised])) if promised else None,
        "chosen": {name: chosen.count(name) for name in sorted({*chosen}) if name},
    }


def rows_of(name: str, record: dict[str, Any], splits: int) -> list[Row]:
    """In every cell the promise is kept as often as stated, and no training-free score answers more."""
    rows = []
    for cell, ways in record["cells"].items():
        mine = ways["howsure"]
        best = max((way for way in ways if way != "howsure"), key=lambda way: ways[way]["coverage"])
        # Twelve violations of a hundred are hardly due to chance at a rate of five, and the future is finite.
        most = 1 - CONFIDENCE + 3 * ((1 - CONFIDENCE) * CONFIDENCE / splits) ** 0.5
        noise = 2 * ways[best]["ahead_se"]
        rows += [
            at_most(f"{name}, {cell}: violations, of all splits", mine["violations"] / splits, 1.0, most),
            at_least(
                f"{name}, {cell}: answered + noise, beside {best}",
                mine["coverage"] + noise,
                ways[best]["coverage"],
                1.0,
            ),
        ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--quick", action="store_true", help="clothes alone, a fifth of the splits, nothing written")
    parser.add_argument("--splits", type=int, default=SPLITS, help="how many")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--out", type=Path, default=FILE, help="where records go")
    options = parser.parse_args()
    torch.set_num_threads(1)  # small batches, and the same numbers on every machine
    splits = QUICK_SPLITS if options.quick else options.splits
    records = json.loads(options.out.read_text()) if options.out.exists() and not options.quick else {}
    rows: list[Row] = []
    for name in ["clothes"] if options.quick else options.worlds:
        record = records.setdefault(name, {"splits": splits, "confidence": CONFIDENCE, "cells": {}})
        made: list[World] = []
        for size in SIZES[:2] if options.quick else SIZES:
            for max_error in TOLERATED:
                cell = f"{size} queries, {max_error:g} tolerated"
                if cell in record["cells"]:
                    continue
                made = made or in_turns(name)
                if min(one.facts["queries"] for one in made) < size + LEAST_FUTURE:
                    continue
                print(f"guarantee: {name}, {cell}", file=sys.stderr, flush=True)
                record["facts"] = [one.facts for one in made]
                record["cells"][cell] = judge(made, size=size, max_error=max_error, splits=splits)
                if not options.quick:
                    write_record(options.out, records)
        rows += rows_of(name, record, record["splits"])
    report(rows, as_json=options.json)


if __name__ == "__main__":
    main()
