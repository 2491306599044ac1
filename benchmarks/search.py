"""Exact search of 200,000 x 128 beliefs with one variance each, beside a plain faiss search of their means.

Both sides run on one thread, faiss with the matrix-product threshold that is best for it. The time is of the processor,
so that other programs do not count.
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
DEFAULT = faiss.cvar.distance_compute_blas_threshold


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
        turns = {1: 100, 64: 10 if quick else 40}
        return [compare(index, flat, queries[:count], times=times) for count, times in turns.items()]


def compare(index: Index, flat: faiss.IndexFlatL2, queries: torch.Tensor, *, times: int) -> Row:
    belief = Gaussian(queries, torch.full((len(queries), 1), 0.05))
    if not index.search(belief, K).exact:
        raise SystemExit("the search did not prove its result")
    ours = under(DEFAULT, lambda: index.search(belief, K))
    plain, product = (under(threshold, lambda: flat.search(queries.numpy(), K)) for threshold in (DEFAULT, 1))
    trial = alternately(plain, product, 3, clock=time.process_time)
    seconds = alternately(ours, plain if trial[0] < trial[1] else product, times, clock=time.process_time)
    what = f"{len(queries)} x {COUNT} x {DIM}, ms of one thread"
    return at_most(what, *(1e3 * value for value in seconds), BAR)


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
