"""Is the promise kept, or withdrawn, while a gallery grows from 40 to 4,000 identities?

`python benchmarks/grown.py [--quick] [--json] [--out FILE]`

Omniglot: a character turned by a quarter, a half and three quarters is three more identities, 6,492 in all, by
histograms of gradients, as plain vectors. A gallery of 40 identities with five drawings each is calibrated once with
ten other drawings of each and 100 of unknown ones; then it grows, and at every size fresh drawings are asked, a fifth
of them of identities that are not there. Identities and drawings are drawn by lot anew for every round.

*Violation*: the error among the matches of a round is above the tolerated one. Where nothing is matched, the promise is
withdrawn. Beside it, what the same threshold would do if nobody looked at the size. Needs HOWSURE_DATA.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from form import Row, at_least, at_most, report
from guarantee import CONFIDENCE, Gradients

from howsure import Gallery
from howsure.bench.record import write_record
from howsure.data import InputSpec, load, stream
from howsure.decide import Finding, ask
from howsure.errors import CalibrationError

FILE = Path(__file__).parents[1] / "results" / "grown.json"
SIZES = (40, 50, 60, 70, 80, 100, 200, 400, 1_000, 4_000)
EACH, CALIBRATING = 5, 10  # drawings of an identity in the gallery, and in calibration
ASKED, UNKNOWN = 600, 0.2  # fresh queries, and the share of them whose identity is not there
MAX_ERROR = 0.1
ROUNDS, QUICK_ROUNDS = 40, 4


def drawings() -> tuple[np.ndarray, np.ndarray]:
    """(N, M) vectors of length one, and the identity of each."""
    spec = InputSpec(32, 32, 1, (0.0,), (1.0,))
    images = load("omniglot:all")
    character = np.unique(np.array([str(label) for label in images.labels]), return_inverse=True)[1]
    with torch.no_grad():
        pixels = torch.cat([1 - spec.normalise(chunk.pixels) for chunk in stream(images, spec)])
        turned = [Gradients()(pixels.rot90(turn, (2, 3))) for turn in range(4)]
    vectors = torch.nn.functional.normalize(torch.cat(turned), dim=1).numpy()
    return vectors, np.concatenate([character + turn * (character.max() + 1) for turn in range(4)])


def asked_at(size: int, order: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of fresh drawings, and which of them are known; `rows` (I, 20) are those of each identity."""
    unknown = rng.random(ASKED) < UNKNOWN
    who = np.where(unknown, rng.choice(order[SIZES[-1] :], ASKED), rng.choice(order[:size], ASKED))
    return rows[who, rng.integers(EACH + CALIBRATING, rows.shape[1], ASKED)], ~unknown


def one_round(vectors: np.ndarray, identity: np.ndarray, seed: int, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """What was answered at every size; nothing where nothing could be promised."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(identity.max() + 1)
    rows = np.stack([rng.permutation(part) for part in np.argsort(identity, kind="stable").reshape(len(order), -1)])
    strangers = rows[rng.choice(order[SIZES[-1] :], 100), EACH]
    held = np.concatenate([rows[order[: SIZES[0]], EACH : EACH + CALIBRATING].ravel(), strangers])
    found = []
    with tempfile.TemporaryDirectory() as folder, Gallery.create(Path(folder) / "gallery") as gallery:
        before = 0
        for size in sizes:
            new = rows[order[before:size], :EACH].ravel()
            gallery.add(vectors[new], ids=[str(row) for row in new], labels=identity[new].tolist())
            before = size
            if size == sizes[0]:
                try:
                    gallery.calibrate(vectors[held], identity[held].tolist(), max_error=MAX_ERROR, seed=seed)
                except CalibrationError:
                    return []
            there, known = asked_at(size, order, rows, rng)
            policy = gallery.policy
            assert policy is not None
            # As if it were the gallery that the policy was made in.
            blind = replace(policy, certificate=replace(policy.certificate, changes=gallery.index.changes))
            plain = ask(gallery.index, gallery.embed(vectors[there]), policy=blind)
            answers = gallery.ask(vectors[there], watch=False)
            names = [str(name) for name in identity[there]]
            found.append(
                counted(answers, names, known) | {f"plain {k}": v for k, v in counted(plain, names, known).items()}
            )
    return found


def counted(findings: list[Finding], names: list[str], known: np.ndarray) -> dict[str, int]:
    match = np.array([one.answer.kind == "match" for one in findings])
    right = np.array([one.matches[0].label == name for one, name in zip(findings, names, strict=True)]) & known
    return {"matches": int(match.sum()), "wrong": int((match & ~right).sum())}


def measured(rounds: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    vectors, identity = drawings()
    done = []
    for seed in range(rounds):
        if found := one_round(vectors, identity, seed, sizes):
            done.append(found)
        print(f"grown: round {seed + 1} of {rounds}", file=sys.stderr, flush=True)
    points = {}
    for place, size in enumerate(sizes):
        at = [found[place] for found in done]
        points[str(size)] = {
            "matched": float(np.mean([one["matches"] / ASKED for one in at])),
            "violations": sum(one["wrong"] > MAX_ERROR * one["matches"] for one in at),
            "withdrawn": sum(one["matches"] == 0 for one in at),
            "error": sum(one["wrong"] for one in at) / max(1, sum(one["matches"] for one in at)),
            "plain violations": sum(one["plain wrong"] > MAX_ERROR * one["plain matches"] for one in at),
            "plain error": sum(one["plain wrong"] for one in at) / max(1, sum(one["plain matches"] for one in at)),
        }
    recipe = {"max_error": MAX_ERROR, "confidence": CONFIDENCE, "asked": ASKED, "seeds": list(range(rounds))}
    return {"recipe": recipe, "rounds": rounds, "promised": len(done), "sizes": points}


def rows_of(record: dict[str, Any]) -> list[Row]:
    """Violations are no more than stated, of all rounds with a promise; the future of a round is finite."""
    n, rows = record["promised"], []
    most = 1 - CONFIDENCE + 3 * ((1 - CONFIDENCE) * CONFIDENCE / n) ** 0.5
    for size, point in record["sizes"].items():
        rows += [
            at_most(f"{size} identities: violations, of rounds with a promise", point["violations"] / n, 1.0, most),
            at_most(f"{size} identities: the same if nobody looked at the size", point["plain violations"] / n, 1.0),
            at_least(f"{size} identities: rounds in which it is withdrawn", point["withdrawn"] / n, 1.0),
            at_least(f"{size} identities: answered", point["matched"], 1.0),
        ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds up to 400 identities, nothing written")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--out", type=Path, default=FILE, help="where the record goes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.out.exists() and not options.quick:
        record = json.loads(options.out.read_text())
    else:
        rounds, sizes = (QUICK_ROUNDS, SIZES[:8]) if options.quick else (ROUNDS, SIZES)
        record = measured(rounds, sizes)
        if not options.quick:
            write_record(options.out, record)
    rows = rows_of(record)
    report(rows, as_json=options.json)


if __name__ == "__main__":
    main()
