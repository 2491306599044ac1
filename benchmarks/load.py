"""Eight readers and one writer at once for two minutes, all of them killed at random moments.

Nothing that the writer acknowledged may be lost, as in `durability.py`. A reader compares what it finds with a
full comparison of what it reads, where nothing changed in between, and never sees an older gallery than before.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from durability import DIM, Score, intact, kill_one, labels_of, outcomes
from form import Row, at_least, at_most, run

from howsure import Gaussian, rms_distance
from howsure.errors import HowsureError
from howsure.index import Index, LocalIndex

READERS, SECONDS, QUICK_SECONDS, K = 8, 120, 20, 10


@dataclass
class Readings:
    """What all readers saw."""

    right: int = 0
    changed: int = 0  # meanwhile, so that there is nothing to compare with
    wrong: int = 0
    killed: int = 0


def read_until_killed(gallery: Path, report: int, seed: int) -> None:
    """Search, compare, and write one letter for each time: r(ight), c(hanged) or w(rong)."""
    generator, seen = torch.Generator().manual_seed(seed), 0
    try:
        with LocalIndex.open(gallery) as index:
            while True:
                query = Gaussian(torch.randn(1, DIM, generator=generator), torch.ones(1, 1))
                now = index.changes
                os.write(report, b"w" if now < seen else _look(index, query, now))
                seen = now
    except HowsureError:
        os.write(report, b"w")
        raise


def _look(index: Index, query: Gaussian, now: int) -> bytes:
    if not len(index):
        return b"c"
    ids, whole = index.embedding()
    found = index.search(query, min(K, len(ids)))
    if index.changes != now:
        return b"c"
    near, order = rms_distance(query.to(dtype=torch.float64), whole.to(dtype=torch.float64))[0].sort(stable=True)
    k = found.ids.shape[1]
    same = found.ids[0].tolist() == [ids[row] for row in order[:k].tolist()]
    return b"r" if same and found.exact and torch.allclose(torch.from_numpy(found.distances[0]), near[:k]) else b"w"


def fork_readers(gallery: Path, seconds: float, seed: int) -> None:
    """When started, keep eight at work, kill one at random every now and then, and print what they saw."""
    sys.stdin.readline()
    rng, readings, numbers = random.Random(seed), Readings(), 0
    source, report = os.pipe()
    os.set_blocking(source, False)
    readers: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while len(readers) < READERS:
            numbers += 1
            child = os.fork()
            if child == 0:
                read_until_killed(gallery, report, seed + numbers)
            readers.append(child)
        time.sleep(rng.uniform(0, 2))
        readings.killed += _kill(readers.pop(rng.randrange(len(readers))))
        _count(source, readings)
    for reader in readers:
        _kill(reader)
    _count(source, readings)
    print(json.dumps(vars(readings)))


def _kill(child: int) -> bool:
    os.kill(child, signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def _count(source: int, readings: Readings) -> None:
    try:
        letters = os.read(source, 1 << 16)
    except BlockingIOError:
        return
    readings.right += letters.count(b"r")
    readings.changed += letters.count(b"c")
    readings.wrong += letters.count(b"w")


def under_load(seconds: float, seed: int = 0) -> tuple[Score, Readings, int]:
    """Changes the writers acknowledged, those of them found, what the readers saw, and how many writers were killed."""
    rng, score, kills = random.Random(seed), Score(), 0
    with tempfile.TemporaryDirectory() as directory:
        gallery = Path(directory) / "gallery"
        LocalIndex.create(gallery).close()
        here = Path(__file__)
        writers = [sys.executable, str(here.with_name("durability.py")), "--fork-writers"]
        readers = [sys.executable, str(here), "--readers", str(gallery), str(seconds), str(seed)]
        with (
            subprocess.Popen(readers, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reading,
            subprocess.Popen(writers, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks,
        ):
            state: dict[str, str] = {}
            while kills == 0 or reading.poll() is None:
                acknowledged = kill_one(forks, gallery, seed + kills, delay=rng.uniform(0, 2))
                before, after = outcomes(state, seed + kills, acknowledged)
                with LocalIndex.open(gallery, write=True) as index:
                    state = labels_of(index)
                    whole = list(state.items()) in (list(before.items()), list(after.items())) and intact(index)
                score.acknowledged += acknowledged
                score.found += acknowledged if whole else 0
                kills += 1
                if kills == 1 and reading.stdin:  # there is something to read, and writers are quick to start
                    reading.stdin.write("go\n")
                    reading.stdin.flush()
            out = reading.stdout.read() if reading.stdout else ""
    return score, Readings(**json.loads(out)), kills


def measure(quick: bool) -> list[Row]:
    seconds = QUICK_SECONDS if quick else SECONDS
    score, readings, kills = under_load(seconds)
    compared = readings.right + readings.wrong
    return [
        at_least(
            f"{seconds} s, {kills} writers killed: changes acknowledged and present", score.found, score.acknowledged, 1
        ),
        at_least(f"{READERS} readers, {readings.killed} killed: answers right", readings.right, compared, 1),
        at_most("answers not compared, for the gallery changed meanwhile", readings.changed, compared),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--readers"]:
        fork_readers(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
    else:
        run(measure)
