"""Does the promised error rate hold, and how much is answered at that price? Many random splits of held-out queries.

`python benchmarks/guarantee.py [--worlds digits fashion cub lfw] [--splits N] [--quick] [--json] [--out FILE]`

Each world is a gallery and queries, a fifth of which no gallery item shows. They are embedded once. A split calibrates
on some of the queries and tests the policy on all others. For comparison: training-free scores (top-1 distance,
margin, distance to neighbours, all between point estimates), for matches alone, and for unknowns too; the same exact
test, the same splits; and the naive threshold, the widest one whose error on the calibration queries is small enough.

The tolerated error is the smallest of ERRORS at which the best of those scores answers 5 % of the queries, on other
splits than the judged ones. A violation is an error above it among the answers to queries that calibration never saw.
That is harsher than the promise: they are few, and a part that flatters calibration leaves its errors to them. What is
promised is the error among all queries like those of the proof, which are drawn by lot from all that did not fit the
policy; `broken` counts the splits in which the error among the answers to these is too large.

Records go to results/guarantee.json, world by world; those that are there are read, not repeated. All but digits need
HOWSURE_DATA, fashion the models of `howsure bench fashion-mnist`, cub the extra `pretrained`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from form import Row, at_least, at_most, table
from torch import Tensor, nn
from torch.nn import functional as F

from howsure.bench.record import write_record
from howsure.data import InputSpec, load, stream
from howsure.decide import Evidence, Policy, calibrate, decide, lead, weigh, widest_threshold
from howsure.decide.held_out import FIT_SHARE
from howsure.embedder import Embedder
from howsure.embeddings import Embedding, cat, point_estimates
from howsure.errors import CalibrationError
from howsure.neighbours import Neighbours, neighbours
from howsure.posteriors import laplace
from howsure.posteriors.laplace.learned_variance import with_learned_variance
from howsure.recipe import recipe_for
from howsure.training import run_training

ROOT = Path(__file__).parents[1]
FILE = ROOT / "results" / "guarantee.json"
FASHION = ROOT / "results" / "fashion-mnist" / "models" / "laplace-online-seed-0"
CONFIDENCE, UNKNOWN = 0.95, 0.2
ERRORS, WORTH = (0.05, 0.1, 0.2, 0.3, 0.4), 0.05
SPLITS, QUICK_SPLITS = 100, 20
TRIALS = range(1_000, 1_020)  # seeds of the splits that choose the tolerated error
FREE = {"top-1 distance": 1, "kNN 5 distance": 5, "kNN 50 distance": 50}


@dataclass(frozen=True, eq=False)
class World:
    """Queries searched once in a gallery; every split judges policies on rows of it."""

    query: Embedding
    labels: np.ndarray
    gallery: Embedding
    identities: np.ndarray
    near: Neighbours  # by expected distance
    free: Neighbours  # by point estimates
    asked: int  # queries of one calibration

    @cached_property
    def known(self) -> np.ndarray:
        return np.isin(self.labels, self.identities)

    def right(self, found: Neighbours) -> np.ndarray:
        return self.identities[found.positions[:, 0]] == self.labels

    def evidence(self, policy: Policy, rows: np.ndarray) -> Evidence:
        novelty = self.query.novelty
        return weigh(
            policy.matcher,
            self.near.distances[rows],
            self.identities[self.near.positions[rows]],
            self.query.uncertainty.double().numpy()[rows],
            None if novelty is None else novelty.double().numpy()[rows],
        )


def world(
    query: Embedding,
    labels: Sequence[Any],
    gallery: Embedding,
    identities: Sequence[Any],
    *,
    asked: int,
) -> World:
    """Unknown queries are thinned out by lot until they are a fifth of all."""
    names = np.array([str(name) for name in labels], dtype=object)
    theirs = np.array([str(name) for name in identities], dtype=object)
    known = np.isin(names, theirs)
    unknown = np.random.default_rng(0).permutation(np.flatnonzero(~known))
    rows = np.sort(np.append(np.flatnonzero(known), unknown[: round(known.sum() * UNKNOWN / (1 - UNKNOWN))]))
    query = query[rows]
    free = neighbours(point_estimates(query), point_estimates(gallery))
    return World(query, names[rows], gallery, theirs, neighbours(query, gallery), free, asked)


# The worlds.


def digits() -> World:
    enrolled, asked = load("digits:train@!8,9"), load("digits:test")
    embedder = run_training(enrolled, recipe_for("digits")).embedder
    encoded = embedder.encode(asked), embedder.encode(enrolled)
    return world(encoded[0], asked.labels, encoded[1], enrolled.labels, asked=450)


def fashion() -> World:
    """Clothes, and handwritten digits among them as intruders."""
    embedder, rng = Embedder.load(FASHION), np.random.default_rng(0)
    asked = load("fashion-mnist:test")
    there, unknown = (
        images.subset(np.sort(rng.permutation(len(images))[:count]))
        for images, count in ((load("fashion-mnist:train"), 1_000), (load("mnist:test"), 2_500))
    )
    query = cat([embedder.encode(asked), embedder.encode(unknown)])
    labels = [*asked.labels, *[f"digit {label}" for label in unknown.labels]]
    return world(query, labels, embedder.encode(there), there.labels, asked=2_000)


def cub() -> World:
    """Species 1 to 100, of which the layer on a pretrained network saw half of the pictures; 101 to 200 are unknown."""
    from birds import Birds, birds_of

    birds = [birds_of(first, first + 99, side=128) for first in (1, 101)]
    species = np.concatenate([part.species for part in birds])
    seen = Birds(torch.cat([part.features for part in birds]), species)
    order = np.random.default_rng(0).permutation(len(birds[0].species))
    held, there, asked = np.split(order, [len(order) // 10, len(order) // 2])
    asked = np.append(asked, np.arange(len(order), len(species)))
    query, gallery = embeddings_of(seen, learn=there, held=held, shrink=3.0, asked=asked)
    return world(query, species[asked], gallery, species[there], asked=1_800)


def lfw() -> World:
    """People with half of their pictures in the gallery, from which a layer learned; others are unknown.

    Descriptor and shrinkage were chosen by recall@1 among the gallery's own pictures: no query took part. How many
    queries calibrate was chosen on splits of seeds from 1,000 on: with 1,200 too few are left to judge by.
    """
    from birds import Birds

    images, rng = load("lfw"), np.random.default_rng(0)
    spec = InputSpec(64, 64, 1, (0.0,), (1.0,))
    with torch.no_grad():
        features = [face(spec.normalise(part.pixels)) for part in stream(images, spec, batch=256, strict=True)]
    seen = Birds(torch.cat(features), np.unique(images.labels, return_inverse=True)[1])
    who = rng.permutation(seen.species.max() + 1)
    held_people, enrolled, unknown = np.split(who, [150, 1_300])
    there, asked = [], np.flatnonzero(np.isin(seen.species, unknown)).tolist()
    for person in enrolled:
        rows = rng.permutation(np.flatnonzero(seen.species == person)).tolist()
        there += rows[: (len(rows) + 1) // 2]
        asked += rows[(len(rows) + 1) // 2 :]
    held = np.flatnonzero(np.isin(seen.species, held_people))
    query, gallery = embeddings_of(seen, learn=np.array(there), held=held, shrink=10.0, asked=np.array(asked))
    return world(query, seen.species[asked], gallery, seen.species[there], asked=800)


WORLDS: dict[str, Callable[[], World]] = {"digits": digits, "fashion": fashion, "cub": cub, "lfw": lfw}


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
    seen: Any, *, learn: np.ndarray, held: np.ndarray, shrink: float, asked: np.ndarray
) -> tuple[Embedding, Embedding]:
    """About the queries and about what was learned from, by one layer on features and its posterior."""
    from birds import Setting, closed_form, spec_of

    known, typical = seen.subset(learn), seen.subset(held)
    embedder = Embedder(nn.Flatten(), closed_form(known, replace(Setting(), shrink=shrink)), spec_of(64))
    with torch.enable_grad():
        pairs = known.batches(classes=8, per_class=32, seed=0)
        embedder = laplace.fit_posterior(embedder, pairs, structure="last-full")
        reference = [(typical.features, torch.from_numpy(typical.species))]
        head = with_learned_variance(laplace.with_novelty(embedder, reference), reference).head
    return tuple(cat([head(part) for part in seen.features[rows].split(512)]) for rows in (asked, learn))


# Judging.


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a world: some fit, some test, the others are the future."""

    seed: int
    fit: np.ndarray
    test: np.ndarray
    future: np.ndarray

    @classmethod
    def of(cls, world: World, seed: int) -> "Split":
        now, future = np.split(np.random.default_rng(seed).permutation(len(world.labels)), [world.asked])
        # As `calibrate` does it with this seed.
        fit, test = np.split(np.random.default_rng(seed).permutation(now), [round(FIT_SHARE * len(now))])
        return cls(seed, fit, test, future)

    @property
    def new(self) -> np.ndarray:
        """All that fitted nothing: the future, then the test."""
        return np.append(self.future, self.test)


@dataclass(frozen=True)
class Outcome:
    """What happened to the queries of one split that calibration did not see."""

    error: float  # among the answers
    coverage: float
    promised: float  # error among the answers to all that fitted nothing


def outcome(world: World, split: Split, *, match: np.ndarray, unknown: np.ndarray, right: np.ndarray) -> Outcome:
    """From the answers to `split.new`."""
    answered = match | unknown
    wrong = (match & ~right[split.new]) | (unknown & world.known[split.new])
    later = slice(len(split.future))
    error, promised = (
        float(wrong[part].sum() / max(1, answered[part].sum())) for part in (later, slice(len(answered)))
    )
    return Outcome(error, float(answered[later].mean()), promised)


def ours(world: World, split: Split, *, max_error: float) -> tuple[Outcome, Outcome]:
    """The policy's, and the naive threshold's on the same score. No promise, no answer."""
    now = np.random.default_rng(split.seed).permutation(len(world.labels))[: world.asked]
    right, nothing = world.right(world.near), np.zeros(len(split.new), bool)
    judged = partial(outcome, world, split, right=right)
    try:
        policy = calibrate(
            world.query[now],
            world.labels[now].tolist(),
            world.gallery,
            world.identities.tolist(),
            max_error=max_error,
            confidence=CONFIDENCE,
            seed=split.seed,
        )
    except CalibrationError:
        return (judged(match=nothing, unknown=nothing),) * 2
    kinds = np.array([answer.kind for answer in decide(policy, world.evidence(policy, split.new))])
    held, new = (policy.chances.scores(world.evidence(policy, rows)).right for rows in (now, split.new))
    naive = new >= naive_threshold(held, ~right[now], max_error=max_error)
    return judged(match=kinds == "match", unknown=kinds == "unknown"), judged(match=naive, unknown=nothing)


def naive_threshold(log_odds: np.ndarray, error: np.ndarray, *, max_error: float) -> float:
    """The lowest log-odds from which the error on these very queries is small enough."""
    order = np.argsort(-log_odds)
    rates = np.cumsum(error[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(rates <= max_error)
    return float(log_odds[order][good[-1]]) if len(good) else np.inf


def free(world: World, split: Split, *, max_error: float) -> dict[str, Outcome]:
    """Scores of point estimates alone: a match up to a threshold, and, if that pays, unknown from another one on."""
    right, found = world.right(world.free), world.free
    scores = {name: found.distances[:, : min(k, found.distances.shape[1])][:, -1] for name, k in FREE.items()}
    scores["margin"] = -lead(found.distances, world.identities[found.positions])
    out = {}
    for name, score in scores.items():
        for rules in (1, 2):
            prove = partial(
                widest_threshold,
                fit=split.fit,
                test=split.test,
                max_error=max_error,
                confidence=1 - (1 - CONFIDENCE) / rules,
            )
            match, unknown = prove(score, ~right), prove(-score, world.known) if rules == 2 else None
            near = score[split.new] <= (match.threshold if match else -np.inf)
            far = -score[split.new] <= (unknown.threshold if unknown else -np.inf)
            key = name if rules == 1 else f"{name}, unknowns too"
            out[key] = outcome(world, split, match=near, unknown=far & ~near, right=right)
    return out


def tolerable(world: World) -> dict[float, float]:
    """What the best free score answers at each error, up to the first at which that is enough."""
    covered: dict[float, float] = {}
    for max_error in ERRORS:
        trials = [free(world, Split.of(world, seed), max_error=max_error) for seed in TRIALS]
        covered[max_error] = max(float(np.mean([trial[way].coverage for trial in trials])) for way in trials[0])
        if covered[max_error] >= WORTH:
            break
    return covered


def judge(world: World, splits: int) -> dict[str, Any]:
    """Every way to answer over all splits, ready to be written."""
    tried = tolerable(world)
    max_error = max(tried)
    ways: dict[str, list[Outcome]] = {}
    for seed in range(splits):
        split = Split.of(world, seed)
        policy, naive = ours(world, split, max_error=max_error)
        for name, result in ({"howsure": policy, "naive": naive} | free(world, split, max_error=max_error)).items():
            ways.setdefault(name, []).append(result)
    return {
        "max_error": max_error,
        "tried": {f"{error:g}": coverage for error, coverage in tried.items()},
        "confidence": CONFIDENCE,
        "splits": splits,
        "seeds": [0, splits - 1],  # of the splits, first and last
        "calibration_queries": world.asked,
        "future_queries": len(world.labels) - world.asked,
        "unknown_rate": float(1 - world.known.mean()),
        "gallery": len(world.identities),
        "identities": len({*world.identities}),
        "recall_at_1": float(world.right(world.near)[world.known].mean()),
        "ways": {name: _summary(results, max_error=max_error) for name, results in ways.items()},
    }


def _summary(outcomes: Sequence[Outcome], *, max_error: float) -> dict[str, float]:
    coverage, error, promised = (
        np.array([getattr(one, name) for one in outcomes]) for name in ("coverage", "error", "promised")
    )
    return {
        "violations": int((error > max_error).sum()),
        "broken": int((promised > max_error).sum()),
        "silent": int((coverage == 0).sum()),
        "coverage": float(coverage.mean()),
        "coverage_sd": float(coverage.std(ddof=1)),
        "error": float(error[coverage > 0].mean()) if (coverage > 0).any() else 0.0,
    }


def rows_of(name: str, record: dict[str, Any]) -> list[Row]:
    """The promise is kept in at least as many splits as stated; more is answered than by the best free score."""
    ways, splits = record["ways"], record["splits"]
    best = max((way for way in ways if way not in ("howsure", "naive")), key=lambda way: ways[way]["coverage"])
    kept, naive = (splits - ways[way]["violations"] for way in ("howsure", "naive"))
    held = splits - ways["howsure"]["broken"]
    # Three broken splits of twenty are no evidence against a rate of 0.95, four are.
    bar = CONFIDENCE if splits >= SPLITS else 0.85
    more = None if name == "digits" else 1.0  # its model gives points, which know no more than their distances
    return [
        at_least(f"{name}: splits in which the promise held, error <= {record['max_error']:g}", held, splits, bar),
        at_least(f"{name}: the same among queries never seen, which are few", kept, splits, bar),
        at_least(f"{name}: and with the naive threshold", naive, splits),
        at_least(f"{name}: coverage, ours and {best}", ways["howsure"]["coverage"], ways[best]["coverage"], more),
        at_most(f"{name}: error among answers, ours and naive", ways["howsure"]["error"], ways["naive"]["error"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--quick", action="store_true", help="digits alone, a fifth of the splits, nothing written")
    parser.add_argument("--splits", type=int, default=SPLITS, help="how many, where a world has no record yet")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--out", type=Path, default=FILE, help="where records go")
    options = parser.parse_args()
    torch.set_num_threads(1)  # small batches, and the same numbers on every machine
    records = json.loads(options.out.read_text()) if options.out.exists() and not options.quick else {}
    rows: list[Row] = []
    for name in ["digits"] if options.quick else options.worlds:
        if name not in records:
            print(f"guarantee: {name}", file=sys.stderr)
            records[name] = judge(WORLDS[name](), QUICK_SPLITS if options.quick else options.splits)
            if not options.quick:
                write_record(options.out, records)
        rows += rows_of(name, records[name])
    print(json.dumps([asdict(row) for row in rows], indent=1) if options.json else table(rows))
    sys.exit(any(row.holds is False for row in rows))


if __name__ == "__main__":
    main()
