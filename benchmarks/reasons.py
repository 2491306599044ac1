"""Does the reason name what is wrong? Queries with one cause each, made from pictures that would have been answered.

`python benchmarks/reasons.py [--worlds NAME...] [--quick] [--json] [--out FILE]`

A gallery is calibrated. Of fresh queries that get a match, each cause takes something away: a fault spoils the
picture; an identity is shared out among two names; all but one reference of an identity, with a slight fault, are
removed. A query that is then answered no more has exactly this cause. Beside them, as they are: known pictures that get
no match, pictures of unknown identities, and unrelated ones. A reason *names* its own cause, and is *wrong* for all
others. Where causes cannot be told apart the weakest reason, unlikely, is *not wrong* either. For known and unknown
pictures with which nothing is wrong, only the weakest reasons are right: unlikely, or nothing close enough.

Limits were chosen on `birds`; the other worlds confirm. Records go to results/reasons.json; worlds that are there are
read, not repeated. Needs HOWSURE_DATA and the extra `pretrained`; features are kept in the user's cache folder.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from birds import network, spec_of
from form import Row, at_least, at_most, report
from guarantee import enrolled, features_of, lengths_one, some
from PIL import Image
from quality import KNOWN as FAULTS

from howsure.bench.record import write_record
from howsure.data import ImageSet, InputSpec, load
from howsure.data.quality import fit_quality
from howsure.decide import Finding, Policy, ask, calibrate
from howsure.embeddings import Embedding, cat
from howsure.index import LocalIndex

FILE = Path(__file__).parents[1] / "results" / "reasons.json"
MAX_ERROR = 0.2
CALIBRATION, ASKED, QUICK = 2_000, 300, 40  # queries that calibrate; of each cause
CHANGED = 0.1  # of the identities are shared out, or made thin
SPOILT = {"blurred": "blur", "dark": "darkness", "small": "small"}  # cause to kind of fault
SLIGHT = ("darkness", "small", "occlusion", "jpeg")  # faults that leave a reference of some use
SEVERITIES = (3, 4, 5)
WEAKEST = "unlikely"
RIGHT = {
    **dict.fromkeys(SPOILT, ("poor_image",)),
    "two names": ("conflict",),
    "one poor reference": ("thin_gallery",),
    "known, too hard": ("unlikely",),
    "unknown": ("unlikely", "unknown"),
    "unrelated": ("unknown", "unfamiliar"),
}


@dataclass(frozen=True, eq=False)
class Scene:
    """Pictures by their rows, and the set and width they come from."""

    images: ImageSet
    labels: np.ndarray  # (N,) of str
    spec: InputSpec
    gallery: np.ndarray
    known: np.ndarray
    unknown: np.ndarray
    unrelated: ImageSet


def scene(images: ImageSet, labels: np.ndarray, known: np.ndarray, *, each: int, **more: Any) -> Scene:
    """So many pictures of every known identity are its references, all others are queries."""
    there, asked = enrolled(labels, known, each=each)
    order = np.random.default_rng(0).permutation(asked)
    names = np.array([str(label) for label in labels], object)
    return Scene(images, names, gallery=there, known=order[known[order]], unknown=order[~known[order]], **more)


def birds() -> Scene:
    """CUB at 192 pixels, half of the species known, fifteen pictures each; scenes are unrelated."""
    images = load("cub:all")
    species = np.array([int(str(label).split(".")[0]) for label in images.labels])
    return scene(
        images, species, species <= 100, each=15, spec=spec_of(224), unrelated=some(load("flickr8k:all"), ASKED)
    )


def people() -> Scene:
    """Market-1501, half of the people known, eight pictures each; birds are unrelated."""
    images = load("market1501")
    who = np.array([str(label) for label in images.labels])
    known, spec = np.isin(who, np.unique(who)[::2]), replace(spec_of(256), width=128)
    return scene(images, who, known, each=8, spec=spec, unrelated=some(load("cub:all"), ASKED))


def objects() -> Scene:
    """CIFAR-10 at 128 pixels, seven kinds known, 150 pictures each; numbers are unrelated."""
    images = some(load("cifar10:test"), 6_000)
    kinds = np.array([str(label) for label in images.labels])
    known = np.isin(kinds, np.unique(kinds)[:7])
    return scene(images, kinds, known, each=150, spec=spec_of(128), unrelated=some(load("svhn:test"), ASKED))


WORLDS: dict[str, Callable[[], Scene]] = {"birds": birds, "people": people, "objects": objects}


def embedded(pictures: Sequence[Image.Image], spec: InputSpec) -> Embedding:
    pixels = torch.stack([torch.from_numpy(spec.pixels(picture)) for picture in pictures])
    with torch.no_grad():
        return lengths_one(torch.cat([network()(spec.normalise(part)) for part in pixels.split(50)]))


def judge(scene: Scene, count: int) -> dict[str, Any]:
    """How often each reason was given for each cause, of queries without a match."""
    rng = np.random.default_rng(1)
    points, quality = lengths_one(features_of(scene.images, scene.spec)), None
    calibrating, fresh = np.split(scene.known, [round(CALIBRATION * 0.8)])
    strangers, others = np.split(scene.unknown, [round(CALIBRATION * 0.2)])
    side = scene.spec.side
    quality = fit_quality(scene.images.subset(calibrating), side=side)
    held = np.concatenate([calibrating, strangers])

    def measures(pictures: Sequence[Image.Image]) -> np.ndarray:
        return np.array([quality.measure(picture) for picture in pictures])

    policy = calibrate(
        points[held],
        scene.labels[held].tolist(),
        points[scene.gallery],
        scene.labels[scene.gallery].tolist(),
        max_error=MAX_ERROR,
        quality=quality,
        measures=measures([scene.images.image(row) for row in held]),
    )
    plain = points[scene.gallery], scene.labels[scene.gallery]

    def asked(rows: np.ndarray, policy: Policy, gallery: tuple[Embedding, np.ndarray] = plain) -> list[Finding]:
        pictures = [scene.images.image(int(row)) for row in rows]
        return answers(policy, gallery, points[rows], measures(pictures))

    found = asked(fresh, policy)
    matched = np.array([one.answer.kind == "match" for one in found])
    right = matched & np.array(
        [
            bool(one.matches) and one.matches[0].label == name
            for one, name in zip(found, scene.labels[fresh], strict=True)
        ]
    )
    answered = fresh[right]
    reasons = {"known, too hard": [one for one, match in zip(found, matched, strict=True) if not match][:count]}
    reasons["unknown"] = asked(others[:count], policy)
    far = [scene.unrelated.image(row) for row in range(min(count, len(scene.unrelated)))]
    reasons["unrelated"] = answers(policy, plain, embedded(far, scene.spec), measures(far))
    for cause, kind in SPOILT.items():
        spoilt = [
            FAULTS[kind](scene.images.image(int(row)), int(rng.choice(SEVERITIES)) - 1, rng) for row in answered[:count]
        ]
        reasons[cause] = answers(policy, plain, embedded(spoilt, scene.spec), measures(spoilt))
    names = np.unique(scene.labels[scene.gallery].astype(str))
    changed = np.array(rng.permutation(names)[: max(1, round(CHANGED * len(names)))], object)
    theirs = answered[np.isin(scene.labels[answered], changed)][:count]
    items, labels = plain
    turn = [int((labels[:row] == name).sum()) % 2 for row, name in enumerate(labels)]
    shared = [f"{name} {half}" if name in changed else name for name, half in zip(labels, turn, strict=True)]
    reasons["two names"] = asked(theirs, policy, (items, np.array(shared, object)))
    kept = ~np.isin(labels, changed)
    poor, of = [], []
    for name in changed:
        row = int(rng.choice(scene.gallery[labels == name]))
        poor.append(FAULTS[str(rng.choice(SLIGHT))](scene.images.image(row), 0, rng))
        of.append(name)
    thin = cat([items[np.flatnonzero(kept)], embedded(poor, scene.spec)]), np.array([*labels[kept], *of], object)
    reasons["one poor reference"] = asked(theirs, policy, thin)
    return {
        "certificate": {"match_coverage": policy.certificate.match_coverage, "n": policy.certificate.n},
        "causes": {cause: counted(findings) for cause, findings in reasons.items()},
        "faults": {cause: faults(reasons[cause]) for cause in SPOILT},
    }


def answers(
    policy: Policy, gallery: tuple[Embedding, np.ndarray], query: Embedding, measures: np.ndarray
) -> list[Finding]:
    items, labels = gallery
    with tempfile.TemporaryDirectory() as folder, LocalIndex.create(Path(folder) / "gallery") as index:
        index.add([f"item {row}" for row in range(len(labels))], items, labels=labels.tolist())
        return ask(index, query, policy=policy, measures=measures)


def counted(findings: Sequence[Finding]) -> dict[str, int]:
    """Each reason, or the answer `unknown` or `match`."""
    return dict(
        Counter(one.answer.reason or "match" if one.answer.kind != "unknown" else "unknown" for one in findings)
    )


def faults(findings: Sequence[Finding]) -> dict[str, int]:
    return dict(Counter(one.answer.fault or "none" for one in findings if one.answer.kind != "match"))


def rows_of(name: str, record: dict[str, Any]) -> list[Row]:
    """What is said is not wrong in 80 % of the cases of each cause, and no reason in 10 % of those of another."""
    rows = []
    shares = {}
    for cause, counts in record["causes"].items():
        total = sum(n for reason, n in counts.items() if reason != "match")
        shares[cause] = {reason: n / total for reason, n in counts.items() if reason != "match"}
        named = sum(shares[cause].get(reason, 0.0) for reason in RIGHT[cause])
        right = named + (shares[cause].get(WEAKEST, 0.0) if WEAKEST not in RIGHT[cause] else 0.0)
        rows += [
            at_least(f"{name}: {cause}, named, of {total} without a match", named, 1.0),
            at_least(f"{name}: {cause}, not wrong", right, 0.8, 1.0),
        ]
    for reason in ("poor_image", "conflict", "thin_gallery", "unfamiliar"):
        wrong = {cause: share.get(reason, 0.0) for cause, share in shares.items() if reason not in RIGHT[cause]}
        worst = max(wrong, key=lambda cause: wrong[cause])
        rows.append(at_most(f"{name}: {reason} where it is wrong, most for {worst}", wrong[worst], 0.1, 1.0))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--quick", action="store_true", help="objects alone, a few queries, nothing written")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--out", type=Path, default=FILE, help="where records go")
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = json.loads(options.out.read_text()) if options.out.exists() and not options.quick else {}
    rows: list[Row] = []
    for name in ["objects"] if options.quick else options.worlds:
        if name not in records:
            print(f"reasons: {name}", file=sys.stderr, flush=True)
            records[name] = judge(WORLDS[name](), QUICK if options.quick else ASKED)
            if not options.quick:
                write_record(options.out, records)
        rows += rows_of(name, records[name])
    report(rows, as_json=options.json)


if __name__ == "__main__":
    main()
