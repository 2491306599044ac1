"""A process adds, replaces, removes and compacts, and says so after each change. It is killed at random moments.

What it acknowledged must be there. The change in flight is there whole or not at all. A damaged snapshot is rebuilt.
`load.py` has readers beside it.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from form import Row, at_least, run

from howsure import Gaussian, rms_distance
from howsure.index import Index, LocalIndex

DIM = 8


@dataclass(frozen=True)
class Change:
    kind: str  # add, remove or compact
    ids: list[str]
    seed: int

    def embedding(self) -> Gaussian:
        generator = torch.Generator().manual_seed(self.seed)
        location = torch.randn(len(self.ids), DIM, generator=generator)
        return Gaussian(location, torch.rand(len(self.ids), 1, generator=generator))

    def apply(self, index: Index) -> None:
        if self.kind == "add":
            embedding = self.embedding()
            notes = [{"scale": value} for value in embedding.scale[:, 0].tolist()]
            index.add(self.ids, embedding, labels=[str(self.seed)] * len(self.ids), metadata=notes)
        elif self.kind == "remove":
            index.remove(self.ids)
        else:
            index.compact()

    def apply_to(self, state: dict[str, str]) -> dict[str, str]:
        """The state after it: the label of every id, in the order of insertion."""
        kept = state if self.kind == "compact" else {name: seed for name, seed in state.items() if name not in self.ids}
        return {**kept, **{name: str(self.seed) for name in self.ids}} if self.kind == "add" else kept


def changes(seed: int, state: dict[str, str]) -> Iterator[Change]:
    """The same endless changes for the process and for its judge."""
    rng = random.Random(seed)
    while True:
        kind = rng.choice(["add", "add", "add", "remove", "compact"])
        pool = list(state) if kind == "remove" else [f"item {n}" for n in range(3000)]
        ids = rng.sample(pool, min(len(pool), rng.choice([1, 20, 300]))) if kind != "compact" else []
        change = Change(kind, ids, rng.randrange(2**31))
        yield change
        state = change.apply_to(state)


def labels_of(index: Index) -> dict[str, str]:
    """The label of every id, in the order of insertion."""
    ids = index.ids()
    return {name: label or "" for name, label in zip(ids, index.labels(ids), strict=True)}


def write_until_killed(gallery: str, seed: int) -> None:
    with LocalIndex.open(gallery, write=True) as index:
        for change in changes(seed, labels_of(index)):
            change.apply(index)
            os.write(1, b"done\n")  # one write of a few bytes: never torn


def fork_writers() -> None:
    """Import once, then fork one writer per line `seed gallery`. Only the children compute, so forking is safe."""
    for line in sys.stdin:
        seed, gallery = line.rstrip("\n").split(" ", 1)
        ready, steady = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(ready, 1)  # not before the parent has named it
            write_until_killed(gallery, int(seed))
        os.write(1, f"{child}\n".encode())
        os.write(steady, b"!")
        os.waitpid(child, 0)
        os.write(1, b"killed\n")


@dataclass
class Score:
    """Changes acknowledged, those of them found, snapshots damaged, those of them rebuilt."""

    acknowledged: int = 0
    found: int = 0
    damaged: int = 0
    rebuilt: int = 0
    trouble: list[str] = field(default_factory=list)


def survive(kills: int, seed: int = 0) -> Score:
    rng, score = random.Random(seed), Score()
    with tempfile.TemporaryDirectory() as directory:
        gallery = Path(directory) / "gallery"
        LocalIndex.create(gallery).close()
        command = [sys.executable, __file__, "--fork-writers"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
            state: dict[str, str] = {}
            for kill in range(kills):
                acknowledged = kill_one(forks, gallery, seed + kill, delay=rng.uniform(0, 0.4))
                before, after = outcomes(state, seed + kill, acknowledged)
                damaged = kill % 4 == 3 and _damage(gallery, rng)
                with LocalIndex.open(gallery, write=True) as index:
                    score.damaged += damaged
                    score.rebuilt += damaged and index.recovered is not None
                    state = labels_of(index)
                    whole = list(state.items()) in (list(before.items()), list(after.items())) and intact(index)
                score.acknowledged += acknowledged
                score.found += acknowledged if whole else 0
                if not whole:
                    score.trouble.append(f"kill {kill} after {acknowledged} changes")
    return score


def kill_one(forks: "subprocess.Popen[str]", gallery: Path, seed: int, *, delay: float) -> int:
    """Start a writer, kill it some time after its first change, and count the changes it acknowledged."""
    if forks.stdin is None or forks.stdout is None:
        raise SystemExit("no pipes to the writers")
    forks.stdin.write(f"{seed} {gallery}\n")
    forks.stdin.flush()
    writer, acknowledged = 0, 0
    for line in iter(forks.stdout.readline, "killed\n"):
        if line != "done\n":
            writer = int(line)
            continue
        acknowledged += 1
        if acknowledged == 1:
            threading.Timer(delay, os.kill, (writer, signal.SIGKILL)).start()
    return acknowledged


def outcomes(state: dict[str, str], seed: int, acknowledged: int) -> tuple[dict[str, str], dict[str, str]]:
    """The state after all changes acknowledged, and after one more."""
    stream = changes(seed, state)
    for _ in range(acknowledged):
        state = next(stream).apply_to(state)
    return state, next(stream).apply_to(state)


def _damage(gallery: Path, rng: random.Random) -> bool:
    """Flip one byte of the snapshot that the manifest names, if there is one. A kill may have left others behind."""
    manifest = gallery / "snapshot.json"
    if not manifest.exists():
        return False
    path = gallery / json.loads(manifest.read_text())["file"]
    data = bytearray(path.read_bytes())
    if not data:  # of a gallery without items
        return False
    data[rng.randrange(len(data))] ^= 0xFF
    path.write_bytes(data)
    return True


def intact(index: Index) -> bool:
    """Every item has the embedding it was added with, and a search agrees with a full comparison of them."""
    if not len(index):
        return True
    ids, whole = index.embedding()
    if [item.metadata["scale"] for item in index.items(ids)] != whole.tensors()["scale"][:, 0].tolist():
        return False
    query = Gaussian(torch.zeros(1, DIM), torch.ones(1, 1))
    distance = rms_distance(query.to(dtype=torch.float64), whole.to(dtype=torch.float64))[0]
    matches = index.search(query, len(ids))
    return set(matches.ids[0]) == set(ids) and torch.allclose(
        torch.from_numpy(matches.distances[0]), distance.sort()[0]
    )


def measure(quick: bool) -> list[Row]:
    kills = 8 if quick else 20
    score = survive(kills)
    for trouble in score.trouble:
        print(trouble, file=sys.stderr)
    return [
        at_least(f"acknowledged changes present after {kills} kills", score.found, score.acknowledged, 1.0),
        at_least("damaged snapshots rebuilt", score.rebuilt, score.damaged, 1.0),
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["--fork-writers"]:
        fork_writers()
    else:
        run(measure)
