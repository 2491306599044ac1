"""A gallery from ten thousand to a million embeddings: time to build, bytes, and queries a second beside faiss.

Identities in 1,000 clusters, five pictures each, 128 dimensions, one variance a picture. faiss holds the plain means,
in a Flat index and in inverted lists, as many, as coarse and read as often as ours. Single queries on one thread; the
time is of the processor. `--quick` stops at 100,000. The full run takes 4 GB and draws `docs/assets/search-growth.png`.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from form import Row, at_least, at_most, run
from search import CLUSTERS, DEFAULT, DIM, K, under

from howsure import Gaussian
from howsure.index import LocalIndex
from howsure.index.local.ivf import build_ivf

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
QUERIES = 32
PLOT = Path(__file__).parents[1] / "docs" / "assets" / "search-growth.png"

Point = dict[str, float]


def measure(quick: bool) -> list[Row]:
    points, rows = [], []
    for count in SIZES[:3] if quick else SIZES:
        points.append(grown(count))
        print(points[-1], file=sys.stderr, flush=True)  # the last takes longest
        if not quick:
            draw(points)
    for point in points:
        at = f"{point['items']:,} items"
        rows += [
            at_most(f"{at}: seconds to build, beside faiss Flat and IVF", point["build"], point["faiss build"]),
            at_most(f"{at}: bytes an item on disk, beside its embedding", point["bytes"], 4 * (DIM + 1)),
            at_least(f"{at}: queries/s by distance, exact, beside Flat", point["distance"], point["Flat"]),
            at_least(f"{at}: queries/s by likelihood, exact, beside Flat", point["exact"], point["Flat"]),
            at_least(f"{at}: queries/s by likelihood, lists, beside IVF", point["lists"], point["IVF"]),
            at_least(f"{at}: queries/s by likelihood, lists, beside exact", point["lists"], point["exact"], bar(point)),
            at_least(f"{at}: share of the true 10 in lists, beside its estimate", point["recall"], point["estimate"]),
        ]
    return rows


def bar(point: Point) -> float | None:
    """Lists are for large galleries: in small ones both take about as long as it takes to ask."""
    return 20 if point["items"] == SIZES[-1] else None


def grown(count: int) -> Point:
    queries = CLUSTERS.queries(count, QUERIES)
    flat, spent = faiss.IndexFlatL2(DIM), {"ours": 0.0, "faiss": 0.0}
    with tempfile.TemporaryDirectory() as directory, LocalIndex.create(Path(directory) / "gallery") as index:
        for number, chunk in enumerate(CLUSTERS.chunks(count)):
            ids = [f"{number} {n}" for n in range(len(chunk))]
            timed(spent, "ours", lambda ids=ids, chunk=chunk: index.add(ids, chunk))
            timed(spent, "faiss", lambda chunk=chunk: flat.add(chunk.location.numpy()))
        timed(spent, "ours", lambda: index.set_prior(CLUSTERS.prior(per_dimension=False)))
        means = faiss.rev_swig_ptr(flat.get_xb(), count * DIM).reshape(count, DIM)
        plain = timed(spent, "faiss", lambda: build_ivf(means))
        rough, exact = ({"by": "likelihood", "approximate": choice} for choice in (True, False))
        found, truth = index.search(queries, K, **rough), index.search(queries, K, **exact)
        plain.nprobe = index._replica.engine.shrunk.ivf.probes
        calls: dict[str, Callable[[Gaussian], object]] = {
            "distance": lambda query: index.search(query, K),
            "exact": lambda query: index.search(query, K, **exact),
            "lists": lambda query: index.search(query, K, **rough),
            "Flat": lambda query: flat.search(query.location.numpy(), K),
            "IVF": lambda query: plain.search(query.location.numpy(), K),
        }
        return {
            "items": count,
            "build": spent["ours"],
            "faiss build": spent["faiss"],
            "bytes": sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file()) / count,
            "recall": float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.ids, truth.ids, strict=True)])),
            "estimate": found.recall or 0.0,
            **{name: rate(call, queries) for name, call in calls.items()},
        }


def timed(spent: dict[str, float], name: str, function: Callable[[], object]) -> object:
    start = time.process_time()
    result = function()
    spent[name] += time.process_time() - start
    return result


def rate(call: Callable[[Gaussian], object], queries: Gaussian) -> float:
    """Queries a second of one thread, one by one, the best of three rounds."""
    rounds = []
    for _ in range(3):
        start = time.process_time()
        for row in range(len(queries)):
            under(DEFAULT, lambda row=row: call(queries[row]))()
        rounds.append(len(queries) / (time.process_time() - start))
    return max(rounds)


def draw(points: list[Point]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    items = [point["items"] for point in points]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    names = {
        "lists": ("by likelihood, lists", "C0-o"),
        "exact": ("by likelihood, exact", "C1-o"),
        "distance": ("by distance, exact", "C2-o"),
        "IVF": ("faiss IVF, means", "C0--"),
        "Flat": ("faiss Flat, means", "C7--"),
    }
    for name, (label, style) in names.items():
        left.loglog(items, [point[name] for point in points], style, label=label, markersize=4)
    left.set(xlabel="items of 128 dimensions", ylabel="queries a second, one thread", title="Search")
    left.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.18), ncols=3)
    for name, (label, style) in {"build": ("howsure", "C1-o"), "faiss build": ("faiss Flat and IVF", "C7--")}.items():
        right.loglog(items, [point[name] for point in points], style, label=label, markersize=4)
    right.set(xlabel="items of 128 dimensions", ylabel="seconds, one thread", title="Build")
    right.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.18), ncols=2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PLOT, dpi=120)


if __name__ == "__main__":
    run(measure)
