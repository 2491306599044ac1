"""Does the quality of a picture tell poor pictures from good ones, on what fitted nothing, and does it name the fault?

`python benchmarks/quality.py [--sets NAME ...] [--quick] [--json] [--out FILE]`

Half of some pictures of a set fit `Quality`, the other half is judged, as it is and made worse: every kind of fault at
every severity, and kinds that the library does not have. The distance that ranks pictures is fitted on good pictures
alone, so that every kind of fault is one that it never saw; the reference is a logistic regression on the same measures
that is fitted to all kinds but the judged one. The shares of good pictures are means over splits.

Measures and constants were chosen on cub and flickr8k; the other sets confirm. `nearest` is the accuracy of the nearest
neighbour among 4,000 birds, of all queries and of those left when the poorest fifth is refused; `cost` is the time of
`measure`. Records go to results/quality.json, part by part; those that are there are read, not repeated. All but digits
need HOWSURE_DATA; market1501 is its folder of training pictures; `nearest` and `cost` need the extra `pretrained`.
"""

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from form import Row, alternately, at_least, at_most, report
from PIL import Image

from howsure.bench.record import write_record
from howsure.data import ImageSet, decode, load
from howsure.data.corruptions import KINDS, RESOLUTION, SEVERITIES
from howsure.data.measures import measure
from howsure.data.quality import FAULTS, Quality, fit_quality, quality_from
from howsure.metrics import auroc, ece
from howsure.numerics.logistic import fit_logistic

FILE = Path(__file__).parents[1] / "results" / "quality.json"
SETS = {
    "cub": "cub:all",
    "flickr8k": "flickr8k:all",
    "lfw": "lfw",
    "market1501": "market1501/bounding_box_train",
    "cifar10": "cifar10:test",
    "svhn": "svhn:test",
    "digits": "digits:test",  # of 8 x 8 pixels, which is too little to judge by: no bar
}
SIDE, COUNT, QUICK_COUNT = 224, 400, 80
SPLITS = 200
CAUSE_OF = {
    "noise": "noisy",
    "blur": "blurred",
    "occlusion": "obscured",
    "contrast": "low_contrast",
    "resolution": "blurred",
    "jpeg": "compressed",
    "darkness": "dark",
    "overexposure": "overexposed",
    "small": "small",
}
DIRT = 0.1  # share of poor pictures among those that fit
BIRDS, ASKED = 4_000, 400
REFUSED = 0.2


# Faults: those of the library, and some that it does not have.


def small(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    share = RESOLUTION[level]
    return image.resize([max(1, round(share * length)) for length in image.size], Image.Resampling.BOX)


def motion(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    """Each pixel the mean of its neighbours left and right, over a share of the shorter side."""
    length = max(3, round((0.04, 0.06, 0.09, 0.12, 0.16)[level] * min(image.size)))
    pixels = np.asarray(image, float)
    ends = [(0, 0), (length // 2 + 1, length - length // 2 - 1), (0, 0)][: pixels.ndim]
    total = np.cumsum(np.pad(pixels, ends, mode="edge"), axis=1)
    return Image.fromarray(np.rint((total[:, length:] - total[:, :-length]) / length).astype(np.uint8))


def haze(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    left = (0.7, 0.55, 0.4, 0.3, 0.2)[level]
    return image.point([round(left * value + (1 - left) * 230) for value in range(256)] * len(image.getbands()))


def dead_pixels(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    pixels = np.array(image)
    drawn, share = rng.random(pixels.shape[:2]), (0.02, 0.05, 0.10, 0.17, 0.25)[level]
    pixels[drawn < share / 2], pixels[drawn > 1 - share / 2] = 0, 255
    return Image.fromarray(pixels)


def finger(image: Image.Image, level: int, rng: np.random.Generator) -> Image.Image:
    """A dark disc with a soft edge that comes in from one side."""
    radius, turn = (0.35, 0.5, 0.65, 0.8, 0.95)[level] * min(image.size), rng.uniform(0, 2 * np.pi)
    row, column = np.mgrid[: image.height, : image.width]
    middle = image.width / 2 * (1 + np.cos(turn)), image.height / 2 * (1 + np.sin(turn))
    inside = np.clip((radius - np.hypot(column - middle[0], row - middle[1])) / (0.1 * min(image.size)) + 0.5, 0, 1)
    mask = Image.fromarray(np.rint(255 * inside).astype(np.uint8))
    return Image.composite(Image.new(image.mode, image.size, (90, 50, 40) if image.mode == "RGB" else 60), image, mask)


def webp(image: Image.Image, level: int, _rng: np.random.Generator) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "WEBP", quality=(20, 10, 5, 2, 0)[level])
    return decode(file.getvalue()).convert(image.mode)


Fault = Callable[[Image.Image, int, np.random.Generator], Image.Image]
KNOWN: dict[str, Fault] = {**{kind: KINDS[kind] for kind in FAULTS}, "small": small}
OTHER: dict[str, Fault] = {
    "motion": motion,
    "haze": haze,
    "dead pixels": dead_pixels,
    "finger": finger,
    "webp": webp,
}
Measured = dict[tuple[str, int], np.ndarray]  # (kind, severity), severity 0 for the pictures as they are


def measured(images: ImageSet, faults: dict[str, Fault]) -> Measured:
    """(n, M) of all pictures for every kind and severity."""
    found: dict[tuple[str, int], list[np.ndarray]] = {}
    for row, name in enumerate(images.ids):
        picture, rng = images.image(row), np.random.default_rng([0, *name.encode()])
        found.setdefault(("good", 0), []).append(measure(picture, side=SIDE))
        for (kind, fault), severity in product(faults.items(), SEVERITIES):
            found.setdefault((kind, severity), []).append(measure(fault(picture, severity - 1, rng), side=SIDE))
    return {key: np.array(rows) for key, rows in found.items()}


# Judging one set.


def quality_of(good: np.ndarray, all_measured: Measured, rows: np.ndarray) -> Quality:
    """Fitted on half of the rows, its limit and its link on the other half."""
    typical, held = rows[::2], rows[1::2]
    faulty = np.concatenate([all_measured[kind, severity][held] for kind, severity in product(KNOWN, SEVERITIES)])
    return quality_from(good[typical], good[held], faulty, side=SIDE)


def aurocs(poorness: Callable[[np.ndarray], np.ndarray], seen: Measured, rows: np.ndarray, kind: str) -> list[float]:
    """P(a picture made worse is poorer than one as it is), at every severity."""
    worse = np.arange(2 * len(rows)) >= len(rows)
    fine = poorness(seen["good", 0][rows])
    return [auroc(worse, np.append(fine, poorness(seen[kind, severity][rows]))) for severity in SEVERITIES]


def learned(quality: Quality, seen: Measured, rows: np.ndarray, without: str) -> Callable[[np.ndarray], np.ndarray]:
    """A logistic regression on deviations to either side, fitted to every kind but one."""

    def sides(values: np.ndarray) -> np.ndarray:
        deviations = quality.typical.deviations(values)
        return np.maximum(0, np.column_stack([deviations, -deviations]))

    kinds = [kind for kind in KNOWN if kind != without]
    bad = np.concatenate([seen[kind, severity][rows] for kind, severity in product(kinds, SEVERITIES)])
    good = np.repeat(seen["good", 0][rows], len(bad) // len(rows), axis=0)
    link = fit_logistic(-sides(np.concatenate([good, bad])), np.arange(len(good) + len(bad)) < len(good))
    return lambda values: -link.log_odds(-sides(values))


def good_shares(seen: Measured) -> dict[str, float]:
    """Of good pictures that fitted nothing: called poor, and with a cause named. Means over splits."""
    good, shares = seen["good", 0], []
    for seed in range(SPLITS):
        rows, rest = np.array_split(np.random.default_rng(seed).permutation(len(good)), 2)
        quality = quality_of(good, seen, rows)
        named = [cause is not None for cause in quality.causes(good[rest])]
        shares.append((quality.poor(good[rest]).mean(), np.mean(named)))
    poor, named = np.mean(shares, axis=0)
    return {"poor": float(poor), "named": float(named)}


def judge(images: ImageSet) -> dict[str, Any]:
    seen = measured(images, {**KNOWN, **OTHER})
    good = seen["good", 0]
    fit, test = np.array_split(np.arange(len(good)), 2)
    quality = quality_of(good, seen, fit)
    dirty = good.copy()
    rng = np.random.default_rng(0)
    for row in rng.permutation(fit)[: round(DIRT * len(fit))]:
        dirty[row] = seen[rng.choice(list(KNOWN)), rng.integers(1, 4)][row]
    far, spoilt = quality.typical.distance, quality_of(dirty, seen, fit).typical.distance
    bad = np.concatenate([seen[kind, severity][test] for kind, severity in product(KNOWN, SEVERITIES)])
    even = np.concatenate([np.repeat(good[test], len(bad) // len(test), axis=0), bad])
    return {
        "pictures": len(good),
        "auroc": {kind: aurocs(far, seen, test, kind) for kind in KNOWN},
        "auroc_other": {kind: aurocs(far, seen, test, kind) for kind in OTHER},
        "auroc_learned": {kind: aurocs(learned(quality, seen, fit, kind), seen, test, kind) for kind in KNOWN},
        "auroc_dirty": {kind: aurocs(spoilt, seen, test, kind) for kind in KNOWN},
        "causes": {kind: causes(quality, seen, test, kind) for kind in KNOWN},
        "good": good_shares(seen),
        "ece": float(ece(quality.probability(even), np.arange(len(even)) < len(even) // 2, bins=10)),
    }


def causes(quality: Quality, seen: Measured, rows: np.ndarray, kind: str) -> dict[str, float]:
    """How often each cause is named at severities 3 to 5; "" where none is."""
    named = [quality.causes(seen[kind, severity][rows]) for severity in (3, 4, 5)]
    flat = [cause or "" for part in named for cause in part]
    return {cause: flat.count(cause) / len(flat) for cause in sorted(set(flat))}


def rows_of(name: str, record: dict[str, Any]) -> list[Row]:
    """AUROCs are means over severities 2 to 5."""
    auc, learned, other, dirty = (
        {kind: float(np.mean(line[1:])) for kind, line in record[way].items()}
        for way in ("auroc", "auroc_learned", "auroc_other", "auroc_dirty")
    )
    right = {kind: record["causes"][kind].get(cause, 0.0) for kind, cause in CAUSE_OF.items()}
    worst, hardest = min(auc, key=lambda kind: auc[kind]), min(right, key=lambda kind: right[kind])
    bar = None if name == "digits" else 1.0
    mean, good = float(np.mean([*auc.values()])), record["good"]
    return [
        at_least(f"{name}: AUROC, worst kind ({worst})", auc[worst], 0.9, bar),
        at_least(f"{name}: mean AUROC; logistic regression", mean, float(np.mean([*learned.values()]))),
        at_least(f"{name}: AUROC with a tenth poor; without", float(np.mean([*dirty.values()])), mean),
        at_least(f"{name}: AUROC of kinds of no library; of ours", float(np.mean([*other.values()])), mean),
        at_least(f"{name}: right cause, severities 3 to 5", float(np.mean([*right.values()])), 0.8, bar),
        at_least(f"{name}: right cause, worst kind ({hardest})", right[hardest], 0.8),
        at_most(f"{name}: good pictures called poor", good["poor"], 0.05, 1.2),
        at_most(f"{name}: good pictures with a cause named", good["named"], 0.05, 1.0),
        at_most(f"{name}: expected calibration error", record["ece"], 0.05),
    ]


# What refusing is worth, and what measuring costs.


def nearest() -> dict[str, float]:
    """Accuracy of the nearest of the other birds; then of queries of which a fifth was made worse."""
    from birds import features_of, network, spec_of

    birds = load("cub:all")
    birds = birds.subset(np.sort(np.random.default_rng(0).permutation(len(birds))[:BIRDS]))
    labels, quality, spec = np.array(birds.labels), fit_quality(birds, side=SIDE), spec_of(SIDE)
    gallery = torch.nn.functional.normalize(features_of(birds, SIDE))
    rng = np.random.default_rng(1)
    asked = rng.permutation(BIRDS)[:ASKED]
    worse = asked[: ASKED // 5]
    pictures = {row: birds.image(int(row)) for row in asked}
    for row in worse:
        pictures[row] = KINDS[rng.choice(FAULTS)](pictures[row], int(rng.integers(len(SEVERITIES))), rng)
    with torch.no_grad():
        pixels = torch.stack([torch.from_numpy(spec.pixels(pictures[row])) for row in asked])
        query = torch.cat([torch.nn.functional.normalize(network()(spec.normalise(part))) for part in pixels.split(50)])

    def accuracy(query: torch.Tensor, rows: np.ndarray, probability: np.ndarray) -> tuple[float, float]:
        similarity = query @ gallery.T
        similarity[torch.arange(len(rows)), torch.from_numpy(rows)] = -1
        right = labels[similarity.argmax(1).numpy()] == labels[rows]
        kept = np.argsort(-probability)[: round((1 - REFUSED) * len(rows))]
        return float(right.mean()), float(right[kept].mean())

    everything = np.arange(BIRDS)
    as_they_are = quality.probability(np.array([quality.measure(birds.image(row)) for row in everything]))
    spoilt = quality.probability(np.array([quality.measure(pictures[row]) for row in asked]))
    found = (*accuracy(gallery, everything, as_they_are), *accuracy(query, asked, spoilt))
    return dict(zip(("all", "kept", "all_spoilt", "kept_spoilt"), found, strict=True))


def nearest_rows(record: dict[str, float]) -> list[Row]:
    return [
        at_least("nearest: accuracy without the poorest fifth, and of all", record["kept"], record["all"], 1.0),
        at_least("nearest: the same, a fifth made worse", record["kept_spoilt"], record["all_spoilt"], 1.0),
    ]


def cost() -> dict[str, float]:
    """Seconds of processor for a picture that is as large as it is seen, and for one of 12 megapixels."""
    from birds import network, spec_of

    spec, picture = spec_of(SIDE), load("flickr8k:dev").image(0)
    seen, large, file = picture.resize((SIDE, SIDE)), picture.resize((4_000, 3_000)), io.BytesIO()
    large.save(file, "JPEG", quality=92)

    def encode() -> None:
        with torch.no_grad():
            network()(spec.normalise(torch.from_numpy(spec.pixels(decode(file.getvalue())))[None]))

    def measure_large() -> None:
        measure(large, side=SIDE)

    def measure_seen() -> None:
        for _ in range(20):
            measure(seen, side=SIDE)

    times = [alternately(run, encode, 10, clock=time.process_time) for run in (measure_seen, measure_large)]
    return {"seen": times[0][0] / 20, "large": times[1][0], "decode_and_encode": times[1][1]}


def cost_rows(record: dict[str, float]) -> list[Row]:
    a_tenth = record["decode_and_encode"] / 10
    return [
        at_most(
            "cost: ms for 12 megapixels; a tenth of decoding and encoding", 1e3 * record["large"], 1e3 * a_tenth, 1.0
        ),
        at_most("cost: ms for 224 x 224 pixels; one", 1e3 * record["seen"], 1.0),
    ]


PARTS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], Sequence[Row]]]] = {
    "nearest": (nearest, nearest_rows),
    "cost": (cost, cost_rows),
}


def pictures(name: str, count: int) -> ImageSet:
    source = SETS[name]
    images = load(Path(os.environ["HOWSURE_DATA"]) / source) if "/" in source else load(source)
    return images.subset(np.random.default_rng(0).permutation(len(images))[:count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *PARTS], default=[*SETS, *PARTS])
    parser.add_argument("--quick", action="store_true", help="a few pictures of cub and digits, nothing written")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--out", type=Path, default=FILE, help="where records go")
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = json.loads(options.out.read_text()) if options.out.exists() and not options.quick else {}
    rows: list[Row] = []
    for name in ["digits", "cub"] if options.quick else options.sets:
        if name not in records:
            print(f"quality: {name}", file=sys.stderr)
            count = QUICK_COUNT if options.quick else COUNT
            records[name] = PARTS[name][0]() if name in PARTS else judge(pictures(name, count))
            if not options.quick:
                write_record(options.out, records)
        rows += PARTS[name][1](records[name]) if name in PARTS else rows_of(name, records[name])
    report(rows, as_json=options.json)


if __name__ == "__main__":
    main()
