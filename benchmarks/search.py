"""Exact search of 200,000 x 128 beliefs with one variance each, beside a plain faiss search of their means.

Both sides run with the thread count, and faiss with the matrix-product threshold, that is best for them here. If that
is one thread for both, the time is of the processor, so that other programs do not count; if not, of the clock.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import torch
from form import Row, alternately, at_most, run

from howsure import Gaussian
from howsure.index import Index

COUNT, DIM, K, BAR = 200_000, 128, 10, 1.25
CHUNK = 20_000


def measure(quick: bool) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    gallery = Gaussian(
        torch.nn.functional.normalize(torch.randn(COUNT, DIM, generator=generator), dim=1),
        0.02 + 0.05 * torch.rand(COUNT, 1, generator=generator),
    )
    queries = torch.nn.functional.normalize(torch.randn(64, DIM, generator=generator), dim=1)
    flat = faiss.IndexFlatL2(DIM)
    flat.add(gallery.location.numpy())
    with tempfile.TemporaryDirectory() as directory, Index.create(Path(directory) / "gallery") as index:
        for start in range(0, COUNT, CHUNK):
            part = slice(start, start + CHUNK)
            index.add([f"{n}" for n in range(start, start + CHUNK)], gallery[part])
        index.compact()
        return [compare(index, flat, queries[:count], quick) for count in (1, 64)]


def compare(index: Index, flat: faiss.IndexFlatL2, queries: torch.Tensor, quick: bool) -> Row:
    belief = Gaussian(queries, torch.full((len(queries), 1), 0.05))
    matches = index.search(belief, K)
    if not matches.exact:
        raise SystemExit("the search did not prove its result")
    ours, reference = lambda: index.search(belief, K), lambda: flat.search(queries.numpy(), K)
    settings = [(threads, 128_000) for threads in sorted({1, faiss.omp_get_max_threads()})]
    our_best = best(ours, settings)
    reference_best = best(reference, settings + [(threads, 1) for threads, _ in settings])
    times = (10 if quick else 30) * (6 if len(queries) == 1 else 1)
    alone = our_best[0] == reference_best[0] == 1
    clock = time.process_time if alone else time.perf_counter
    seconds = alternately(under(our_best, ours), under(reference_best, reference), times, clock=clock)
    unit = "ms of one thread" if alone else f"ms ({our_best[0]} and {reference_best[0]} threads)"
    name = "one query" if len(queries) == 1 else f"{len(queries)} queries"
    return at_most(f"{name} of {COUNT} x {DIM}, {unit}", *(1e3 * value for value in seconds), BAR)


def under(setting: tuple[int, int], function: Callable[[], object]) -> Callable[[], object]:
    def call() -> object:
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(setting[0])
        faiss.cvar.distance_compute_blas_threshold = setting[1]
        try:
            return function()
        finally:
            faiss.omp_set_num_threads(threads)
            faiss.cvar.distance_compute_blas_threshold = 128_000

    return call


def best(function: Callable[[], object], settings: list[tuple[int, int]]) -> tuple[int, int]:
    def seconds(setting: tuple[int, int]) -> float:
        return alternately(under(setting, function), lambda: None, 3)[0]

    return min(settings, key=seconds)


if __name__ == "__main__":
    run(measure)
