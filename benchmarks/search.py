"""Searches of 200,000 x 128 embeddings beside plain faiss searches of their means, and what they find.

Beliefs are of pictures of identities, five each, with variances over two decades. All sides run on one thread, faiss
with the matrix-product threshold that is best for it. The time is of the processor, so that other programs do not
count. Single queries are what a service sees: each asks something else, and the time is the mean of them. How much
lists read was chosen on items of the gallery when they were made, not on the queries here. `growth.py` goes on to a
million items.

"Two decades" of an embedding with a variance for each dimension has two readings. In the plain one a picture has a
level over two decades, and dimensions differ by a factor; in the harder one every dimension has its own two decades.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
import torch
from form import Row, alternately, at_least, at_most, run

from howsure import Gaussian
from howsure.index import Index, LocalIndex
from howsure.index.local.scan import largest_products
from howsure.index.ranking.shrunk_keys import ShrunkQuery, shrunk_rows
from howsure.index.ranking.weighted_keys import Typical
from howsure.prior import Prior, log_likelihood_ratio

COUNT, DIM, K, EACH = 200_000, 128, 10, 5
CHUNK = 20_000
DEFAULT = faiss.cvar.distance_compute_blas_threshold


@dataclass(frozen=True)
class World:
    """Identities, in clusters or without any structure, and how unsure pictures of them are."""

    clusters: int = 0
    scale: Callable[[int, torch.Generator], torch.Tensor] = lambda count, g: (
        10 ** (torch.rand(count, 1, generator=g) - 1)
    )

    def identities(self, count: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1)
        if not self.clusters:
            return torch.randn(count, DIM, generator=generator)
        centres = torch.randn(self.clusters, DIM, generator=generator)[torch.arange(count) % self.clusters]
        return 0.9**0.5 * centres + 0.1**0.5 * torch.randn(count, DIM, generator=generator)

    def pictures(self, identities: torch.Tensor, seed: int) -> Gaussian:
        generator = torch.Generator().manual_seed(seed)
        scale = self.scale(len(identities), generator)
        return Gaussian(identities + scale * torch.randn(identities.shape, generator=generator), scale)

    def chunks(self, count: int) -> Iterator[Gaussian]:
        identities = self.identities(count // EACH).repeat_interleave(EACH, 0)
        for start in range(0, count, CHUNK):
            yield self.pictures(identities[start : start + CHUNK], start + 2)

    def queries(self, count: int, number: int) -> Gaussian:
        chosen = torch.randint(count // EACH, (number,), generator=torch.Generator().manual_seed(3))
        return self.pictures(self.identities(count // EACH)[chosen], 4)

    def prior(self, *, per_dimension: bool) -> Prior:
        first = next(self.chunks(CHUNK))
        return Prior.fit(first, torch.arange(CHUNK) // EACH, per_dimension=per_dimension)


def spread(width: float) -> Callable[[int, torch.Generator], torch.Tensor]:
    """A level over two decades of variance for each picture, and a log-normal factor for each dimension."""

    def scale(count: int, generator: torch.Generator) -> torch.Tensor:
        level = 10 ** (2 * torch.rand(count, 1, generator=generator) - 2)
        return (level * (width * torch.randn(count, DIM, generator=generator)).exp()).sqrt()

    return scale


def any_variance(count: int, generator: torch.Generator) -> torch.Tensor:
    return 10 ** (torch.rand(count, DIM, generator=generator) - 1)


NOISE, CLUSTERS = World(), World(clusters=1000)
DIAGONAL, LONG, WILD = World(scale=spread(0.5)), World(scale=spread(1.0)), World(scale=any_variance)


def measure(quick: bool) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        with LocalIndex.create(Path(directory) / "noise") as index:
            flat = fill(index, NOISE, COUNT)
            queries = NOISE.queries(COUNT, 64)
            for count, times in {1: 100, 64: 10 if quick else 40}.items():
                ways = ("distance", "likelihood")
                rows += [against_flat(index, flat, queries[:count], by=by, times=times) for by in ways]
            for count, times in {1: 100, 256: 4 if quick else 12}.items():
                rows.append(mean_beside_distance(index, NOISE.queries(COUNT, count), times=times))
            rows += lists(index, queries, "no structure")
        with LocalIndex.create(Path(directory) / "clusters") as index:
            fill(index, CLUSTERS, COUNT)
            rows += lists(index, CLUSTERS.queries(COUNT, 64), "clusters", bar=0.95)
    asked = 8 if quick else 32
    rows += candidate_recall("one variance each", NOISE, asked, candidates=100, bar=0.99)
    rows += candidate_recall("plain reading, spread 0.5", DIAGONAL, asked, candidates=200, bar=0.95)
    if not quick:
        rows += candidate_recall("plain reading, spread 1", LONG, asked, candidates=200, bar=0.95)
        rows += candidate_recall("harder reading", WILD, asked, candidates=200, bar=0.95)
    return rows


def fill(index: Index, world: World, count: int) -> faiss.IndexFlatL2:
    """Add the pictures of a world to both."""
    flat = faiss.IndexFlatL2(DIM)
    for number, chunk in enumerate(world.chunks(count)):
        index.add([f"{number} {n}" for n in range(len(chunk))], chunk)
        flat.add(chunk.location.numpy())
    index.set_prior(world.prior(per_dimension=False))
    return flat


def against_flat(index: Index, flat: faiss.IndexFlatL2, queries: Gaussian, *, by: str, times: int) -> Row:
    if not index.search(queries, K, by=by).exact:
        raise SystemExit("the search did not prove its result")
    ours = under(DEFAULT, lambda: index.search(queries, K, by=by))
    means = queries.location.numpy()
    plain, product = (under(threshold, lambda: flat.search(means, K)) for threshold in (DEFAULT, 1))
    trial = alternately(plain, product, 3, clock=time.process_time)
    seconds = alternately(ours, plain if trial[0] < trial[1] else product, times, clock=time.process_time)
    what = f"exact by {by}, {len(queries)} x {COUNT} x {DIM}, ms of one thread beside faiss Flat"
    return at_most(what, *(1e3 * value for value in seconds), 1.25)


def mean_beside_distance(index: Index, queries: Gaussian, *, times: int) -> Row:
    """The same keys without their uncertainty: that must not cost much."""
    if not index.search(queries, K, by="mean").exact:
        raise SystemExit("the search did not prove its result")
    calls = (under(DEFAULT, lambda by=by: index.search(queries, K, by=by)) for by in ("mean", "distance"))
    seconds = alternately(*calls, times, clock=time.process_time)
    what = f"exact by mean, {len(queries)} x {COUNT} x {DIM}, ms beside by distance"
    return at_most(what, *(1e3 * value for value in seconds), 1.3)


def lists(index: Index, queries: Gaussian, name: str, *, bar: float | None = None) -> list[Row]:
    """Inverted lists against the exact scan: how much they find, and how much sooner."""
    rough, exact = ({"by": "likelihood", "approximate": choice} for choice in (True, False))
    found, truth = index.search(queries, K, **rough), index.search(queries, K, **exact)
    share = float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.ids, truth.ids, strict=True)]))
    rows = [
        at_least(f"lists, {name}: share of the true 10", share, 1.0, bar),
        at_least(f"lists, {name}: that share beside its estimate", share, found.recall or 0.0),
    ]
    single = [queries[row] for row in range(16)]
    for name_of, asked, times in ((f"single of {len(single)}", single, 15), ("batch of 64", [queries], 15)):
        calls = (
            under(DEFAULT, lambda asked=asked, how=how: [index.search(one, K, **how) for one in asked])
            for how in (exact, rough)
        )
        seconds = alternately(*calls, times, clock=time.process_time)
        what = f"lists, {name}: {name_of}, exact beside listed, ms a call"
        rows.append(at_least(what, *(1e3 * s / len(asked) for s in seconds), 20 if bar and len(asked) > 1 else None))
    return rows


def candidate_recall(name: str, world: World, asked: int, *, candidates: int, bar: float) -> list[Row]:
    """The share of the ten most likely, by brute force, that is among the candidates of a scan."""
    one = name == "one variance each"
    query, prior = world.queries(COUNT, asked).to(dtype=torch.float64), world.prior(per_dimension=not one)
    plain = ShrunkQuery.from_query(query, prior, 1)
    typical = Typical.fit(next(world.chunks(COUNT)), prior)
    rows, weighted, scores = [], [], []
    for chunk in world.chunks(COUNT):
        rows.append(shrunk_rows(chunk, prior))
        weighted += [] if one else [typical.rows(chunk, prior)]
        parts = (chunk[start : start + 500].to(dtype=torch.float64) for start in range(0, len(chunk), 500))
        scores += [log_likelihood_ratio(query, part, prior) for part in parts]
    best = torch.cat(scores, 1).topk(K, 1).indices.tolist()

    def share(keys: np.ndarray, held: list[np.ndarray]) -> float:
        _, near = largest_products(keys, np.concatenate(held), candidates)
        return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(near.tolist(), best, strict=True)]))

    what = f"likely 10 among {candidates} candidates, {name}"
    if one:
        return [at_least(f"{what}, by shrunk means", share(plain.keys, rows), 1.0, bar)]
    return [
        at_least(f"{what}, by shrunk means", share(plain.keys, rows), 1.0),
        at_least(f"{what}, weighted", share(typical.keys(plain), weighted), 1.0, bar),
    ]


def under(threshold: int, function: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        before = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        faiss.cvar.distance_compute_blas_threshold = threshold
        function()
        faiss.cvar.distance_compute_blas_threshold = DEFAULT
        faiss.omp_set_num_threads(before)

    return call


if __name__ == "__main__":
    run(measure)
