"""The web app under load: `howsure serve` over 50,000 embeddings, asked by several clients at once on loopback.

Each client sends embeddings, waits for the answer, and sends the next. Every search is exact, and decided by a policy.
Clients and server share the machine. The processor's time of the server comes from its own
`/metrics`, so other programs do not count in it.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from form import Row, at_least, at_most, run

from howsure import Gaussian
from howsure.data import InputSpec
from howsure.decide import calibrate
from howsure.embedder import Embedder
from howsure.index import LocalIndex

COUNT, DIM, EACH, CLIENTS = 50_000, 128, 5, 8
RATE, SLOWEST = 200, 100  # searches a second, and milliseconds for 99 of 100 of them
QUERIES = 500
ROUTE = "/api/v1/search/precomputed"


def pictures(identities: torch.Tensor, seed: int) -> Gaussian:
    generator = torch.Generator().manual_seed(seed)
    scale = 10 ** (torch.rand(len(identities), 1, generator=generator) - 1)
    return Gaussian(identities + scale * torch.randn(identities.shape, generator=generator), scale)


def make(folder: Path) -> tuple[Path, Gaussian]:
    """A gallery, its model and policy, and queries half of which are of nobody in it."""
    torch.manual_seed(0)
    people = torch.randn(COUNT // EACH + QUERIES, DIM, generator=torch.Generator().manual_seed(1))
    known = np.arange(COUNT // EACH).repeat(EACH)
    embedding, names = pictures(people[known], 2), [f"person {who}" for who in known.tolist()]
    embedder = Embedder("lam-fashion", "gaussian", InputSpec(8, 8, 1, (0.0,), (1.0,)), dim=DIM)
    embedder.save(folder / "model")
    held_out = pictures(people[: 2 * QUERIES], 3)
    some = slice(0, 10 * QUERIES)  # enough of the gallery to learn from
    labels = [f"person {who}" for who in range(2 * QUERIES)]
    policy = calibrate(held_out, labels, embedding[some], names[some], max_error=0.05, model=embedder.fingerprint)
    policy.save(folder / "model")
    about = {"model": str(folder / "model"), "fingerprint": embedder.fingerprint}
    with LocalIndex.create(folder / "gallery", about=about) as index:
        ids = [f"{name}/{row}.jpg" for row, name in enumerate(names)]
        notes = [{"path": f"/pictures/{name}", "bytes": 10_000, "modified": 0} for name in ids]
        index.add(ids, embedding, labels=names, metadata=notes)
        index.compact()
    return folder / "gallery", pictures(people[-2 * QUERIES :], 4)


@contextmanager
def serving(gallery: Path) -> Iterator[int]:
    """The port of a server in a process of its own."""
    words = [sys.executable, "-m", "howsure", "serve", str(gallery), "--no-open", "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline() if process.stderr else ""
            found = re.search(r":(\d+)/", line)
            if not found:
                raise SystemExit(line)
            yield int(found[1])
        finally:
            process.kill()


def requests(queries: Gaussian, port: int) -> list[bytes]:
    """Each query as the bytes of a request."""
    rows = zip(queries.location.tolist(), queries.scale.tolist(), strict=True)
    bodies = [
        json.dumps({"fields": {"location": [location], "scale": [scale]}, "k": 5}).encode() for location, scale in rows
    ]
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: "
    return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]


async def load(asked: list[bytes], port: int, seconds: float, clients: int) -> list[float]:
    """The seconds that each search took, over a fixed time."""
    took: list[float] = []
    until = time.perf_counter() + seconds

    async def client(turn: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (begun := time.perf_counter()) < until:
            writer.write(asked[turn % len(asked)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if b" 200 " not in head[:20]:
                raise SystemExit(f"the server answered {head[:20]!r} {body[:200]!r}")
            took.append(time.perf_counter() - begun)
            turn += clients
        writer.close()

    await asyncio.gather(*(client(turn) for turn in range(clients)))
    return took


def processor_time(port: int) -> float:
    """Seconds of the processor that the server has used."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        found = re.search(r"^process_cpu_seconds_total (\S+)$", reply.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def measure(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        gallery, queries = make(Path(directory))
        with serving(gallery) as port:
            asked = requests(queries, port)
            asyncio.run(load(asked, port, 2, CLIENTS))  # warms up
            spent, seconds = processor_time(port), 5 if quick else 30
            took = asyncio.run(load(asked, port, seconds, CLIENTS))
            spent = processor_time(port) - spent
            alone = asyncio.run(load(asked, port, 2 if quick else 5, 1))
    what = f"{COUNT} x {DIM}, {CLIENTS} clients"
    return [
        at_least(f"searches a second, {what}", len(took) / seconds, RATE, 1.0),
        at_most(f"ms for 99 of 100 searches, {what}", 1e3 * float(np.quantile(took, 0.99)), SLOWEST, 1.0),
        at_most(f"processor's ms for a search, {what}", 1e3 * spent / len(took), 1e3 / RATE),
        at_most("ms for half of the searches, one client", 1e3 * float(np.median(alone)), SLOWEST),
    ]


if __name__ == "__main__":
    run(measure)
