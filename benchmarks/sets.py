"""Do prediction sets hold the right identity as often as stated, and how large are they, beside crepes?

`python benchmarks/sets.py [--worlds NAME...] [--quick] [--json] [--out FILE]`

The worlds of `guarantee.py`, and calibration sets by lot. Of the other queries some are asked, by lot too. Ours are the
sets of the rule that calibration would fit. Theirs are split conformal classification by crepes, as it comes, which is
smoothed, on the same matches and the known queries of the calibration set: `hinge` and `margin` on probabilities, a
softmax over identities of minus the distance of the nearest picture by the gallery's unit; `ratio`, log of how many
times as far as the best match that picture lies; and `behind`, which is our own score. An identity that is not among
the matches comes last.

*Coverage*: the share of known queries whose set holds the right identity, mean over splits. *Size*: how many identities
a set has. Ours refuses where too few identities are found at all; such a split has no sets. *Open*: sets in which ours
leaves `unknown` open; crepes knows no unknown, its empty sets are counted instead.

The score of ours was chosen on `birds`, `clothes` and `faces`; the others took no part. Records go to
results/sets.json; cells that are there are not repeated. Needs what `guarantee.py` needs, and crepes.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from form import Row, at_least, at_most, report
from guarantee import LEAST_FUTURE, SIZES, WORLDS, World, in_turns
from scipy.special import softmax

from howsure.bench.record import write_record
from howsure.decide.learning import Learned, learn
from howsure.decide.prediction_sets import SMALLEST, behind, set_rule
from howsure.decide.searched import Searched
from howsure.errors import CalibrationError, InputError

FILE = Path(__file__).parents[1] / "results" / "sets.json"
STATED = (0.9, 0.95)
LOWER = {"faces": (0.5, 0.6), "people": (0.5, 0.6)}  # where too few identities are among the matches for more
SPLITS, QUICK_SPLITS = 100, 20
ASKED = 500  # of the future
PEER = "crepes==0.9.1"


@dataclass(frozen=True, eq=False)
class Sets:
    """What the sets of Q queries are like; arrays are (Q,)."""

    right: np.ndarray  # holds the identity that is wanted
    size: np.ndarray
    open: np.ndarray | None = None  # whether it may also be unknown


def ours(
    learned: Learned, world: World, now: np.ndarray, asked: np.ndarray, *, stated: Sequence[float]
) -> dict[float, Sets]:
    """By probability, where there are sets."""
    done, held = learned.held[learned.test], world.held[now][learned.test]
    rule = set_rule(done.distances, done.identities, learned.scores[learned.test], held.wanted, held.known)
    coming, wanted = world.ways.held[learned.candidate.by][asked], world.held.wanted[asked]
    score, found = learned.score.log_odds(coming.evidence.features()), {}
    for probability in stated:
        with suppress(CalibrationError):
            sets = rule.sets(coming.distances, coming.identities, score, probability=probability)
            right = [name in one.identities for name, one in zip(wanted, sets, strict=True)]
            size = [len(one.identities) for one in sets]
            found[probability] = Sets(np.array(right), np.array(size), np.array([one.unknown for one in sets]))
    return found


# Theirs.


@dataclass(frozen=True, eq=False)
class Nonconformity:
    """One score of queries and identities: the larger, the less alike."""

    found: np.ndarray  # (Q, k) of the identity of each match
    others: np.ndarray  # (Q,) of identities that are not among the matches

    def wanted(self, rows: np.ndarray, mine: np.ndarray) -> np.ndarray:
        """(R,) of the right identities of some queries; `mine` (Q, k): whose matches these are."""
        return np.where(mine[rows], self.found[rows], self.others[rows, None]).min(1)


@dataclass(frozen=True, eq=False)
class Scored:
    """All queries in one ranking, by every score."""

    first: np.ndarray  # (Q, k) the nearest picture of each identity among the matches
    mine: np.ndarray  # (Q, k) of them, that of the wanted one
    others: np.ndarray  # (Q,) how many identities are not among the matches
    scores: dict[str, Nonconformity]


def scored(done: Searched, wanted: np.ndarray, *, unit: float, identities: int) -> Scored:
    """The definitions of crepes: hinge is 1 - p, margin the largest p of another identity minus p."""
    names = done.identities
    first = np.ones(names.shape, bool)
    for rank in range(1, names.shape[1]):
        first[:, rank] = (names[:, :rank] != names[:, [rank]]).all(1)
    p = softmax(np.where(first, -done.distances / unit, -np.inf), axis=1)
    two = np.sort(p, axis=1)[:, -2:]
    rival = np.where(p == two[:, 1:], two[:, :1], two[:, 1:])
    nearest = np.maximum(done.distances, SMALLEST)
    never = np.full(len(names), np.inf)
    return Scored(
        first,
        first & (names == wanted[:, None]),
        identities - first.sum(1),
        {
            "hinge": Nonconformity(1 - p, np.ones(len(names))),
            "margin": Nonconformity(rival - p, two[:, 1]),
            "ratio": Nonconformity(np.log(nearest / nearest[:, :1]), never),
            "behind": Nonconformity(behind(done.distances, names), never),
        },
    )


def theirs(
    every: Scored, known: np.ndarray, asked: np.ndarray, *, stated: Sequence[float], seed: int
) -> dict[str, dict[float, Sets]]:
    """By score and probability, from the known queries of a calibration set."""
    found: dict[str, dict[float, Sets]] = {}
    first, mine, others = every.first[asked], every.mine[asked], every.others[asked]
    for name, score in every.scores.items():
        conformal = peer()()
        conformal.fit(score.wanted(known, every.mine), seed=seed)
        p = np.zeros(first.shape)
        p[first] = conformal.predict_p(score.found[asked][first])
        p_others = conformal.predict_p(score.others[asked])
        found[name] = {}
        for probability in stated:
            inside, rest = first & (p >= 1 - probability), p_others >= 1 - probability
            right = np.where(mine.any(1), (inside & mine).any(1), rest)
            found[name][probability] = Sets(right, inside.sum(1) + rest * others)
    return found


def peer() -> Any:
    """The class of crepes that classifies."""
    try:
        from crepes import ConformalClassifier
    except ImportError as error:
        fix = f"pip install {PEER}"
        raise InputError("crepes", expected="the package to compare with", got="none", fix=fix) from error
    return ConformalClassifier


# Judging.


def judge(worlds: Sequence[World], *, size: int, stated: Sequence[float], splits: int) -> dict[str, Any]:
    """Every way to make sets, by stated probability; splits take turns in the worlds."""
    found: dict[float, dict[str, list[dict[str, float]]]] = {probability: {} for probability in stated}
    every = [
        {
            by: scored(done, world.held.wanted, unit=world.ways.units[by], identities=world.facts["identities"])
            for by, done in world.ways.held.items()
        }
        for world in worlds
    ]
    for seed in range(splits):
        turn = seed % len(worlds)
        world = worlds[turn]
        wanted, known = world.held.wanted, world.held.known
        now, future = np.split(np.random.default_rng(seed).permutation(len(wanted)), [size])
        asked = future[:ASKED]
        learned = learn(world.ways.only(now), world.held[now], rng=np.random.default_rng(seed))
        ways = {"howsure": ours(learned, world, now, asked, stated=stated)}
        ways |= theirs(every[turn][learned.candidate.by], now[known[now]], asked, stated=stated, seed=seed)
        for name, sets in ways.items():
            for probability, one in sets.items():
                found[probability].setdefault(name, []).append(shares(one, known[asked]))
    return {
        f"{size} queries, {probability:g} stated": {name: summary(each) for name, each in ways.items()}
        for probability, ways in found.items()
    }


def shares(sets: Sets, known: np.ndarray) -> dict[str, float]:
    """Of known queries, and of unknown ones."""
    there = {
        "coverage": sets.right[known].mean(),
        "size": sets.size[known].mean(),
        "empty": (sets.size == 0)[known].mean(),
        "single": (sets.size == 1)[known].mean(),
        "unknown_empty": (sets.size == 0)[~known].mean(),
    }
    if sets.open is not None:
        there |= {"open": sets.open[known].mean(), "unknown_open": sets.open[~known].mean()}
    return there


def summary(splits: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over the splits that have sets, with standard errors."""
    found: dict[str, float] = {"splits": len(splits)}
    for name in splits[0]:
        values = np.array([one[name] for one in splits])
        found |= {name: float(values.mean()), f"{name}_se": float(values.std(ddof=1) / len(values) ** 0.5)}
    return found


def rows_of(name: str, record: dict[str, Any]) -> list[Row]:
    """Sets hold what is right as often as stated, and are no larger than crepes' best."""
    rows = []
    for cell, ways in record["cells"].items():
        mine = ways.get("howsure")
        if mine is None or mine["splits"] < record["splits"]:
            continue  # it refuses
        stated = float(cell.split()[2])
        best = min((way for way in ways if way != "howsure"), key=lambda way: ways[way]["size"])
        noise = 2 * float(np.hypot(mine["size_se"], ways[best]["size_se"]))
        for what, key in (("coverage", "coverage"), ("unknown open", "unknown_open")):
            rows.append(at_least(f"{name}, {cell}: {what} + noise", mine[key] + 3 * mine[f"{key}_se"], stated, 1.0))
        rows.append(
            at_most(f"{name}, {cell}: size - noise, beside {best}", mine["size"] - noise, ways[best]["size"], 1.0)
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=[*WORLDS])
    parser.add_argument("--quick", action="store_true", help="clothes alone, a fifth of the splits, nothing written")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--out", type=Path, default=FILE, help="where records go")
    options = parser.parse_args()
    torch.set_num_threads(1)  # small batches, and the same numbers on every machine
    splits = QUICK_SPLITS if options.quick else SPLITS
    records = json.loads(options.out.read_text()) if options.out.exists() and not options.quick else {}
    rows: list[Row] = []
    for name in ["clothes"] if options.quick else options.worlds:
        record = records.setdefault(name, {"splits": splits, "cells": {}})
        stated = (*LOWER.get(name, ()), *STATED)
        made: list[World] = []
        for size in SIZES[:1] if options.quick else SIZES:
            there = {cell for cell in record["cells"] if cell.startswith(f"{size} queries")}
            if there:
                continue
            made = made or in_turns(name)
            if min(one.facts["queries"] for one in made) < size + LEAST_FUTURE:
                continue
            print(f"sets: {name}, {size} queries", file=sys.stderr, flush=True)
            record["facts"] = [one.facts for one in made]
            record["cells"] |= judge(made, size=size, stated=stated, splits=splits)
            if not options.quick:
                write_record(options.out, records)
        rows += rows_of(name, record)
    report(rows, as_json=options.json)


if __name__ == "__main__":
    main()
