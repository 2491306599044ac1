"""howsure track: who is who from frame to frame."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, Strict, print_json, require_suffix, write_csv
from howsure.cli.model import encode, load_model
from howsure.errors import InputError, ModelError

FIRM = 0.95  # the share of detections that are certain enough to begin a track


def track(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Detections; the label (a folder each) is the frame.")],
    model: Annotated[Path, typer.Option("-m", "--model", help="A model directory.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.csv", help="Where tracks are written.")],
    plain: Annotated[bool, typer.Option("--plain", help="Ignore uncertainty.")] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Give every detection the number of its track: id, frame and track, as CSV; frames in the order of their names.

    Two detections of a frame never share a track. One that fits nowhere begins a track; if it is too uncertain, it
    gets none (-1).
    """
    require_suffix(out, ".csv")
    import numpy as np

    from howsure import data as pictures
    from howsure.tasks.tracking import UNASSIGNED, Tracker

    embedder = load_model(model)
    matcher = embedder.matcher
    if matcher is None:
        raise ModelError(f"{model} cannot tell probabilities", fix="train it on pictures that can be held out")
    images = pictures.load(data)
    if None in images.labels:
        raise InputError(f"frames of {images.name}", expected="one for every detection", got="some missing")
    found = encode(embedder, images, strict=strict)
    uncertainty = found.embedding.uncertainty.double()
    tracker = Tracker(
        matcher.at(0.5),
        reference=float(uncertainty.median()),
        max_uncertainty=float(uncertainty.quantile(FIRM)),
        weighted=not plain,
    )
    frames, tracks = np.array(found.images.labels, dtype=str), np.empty(len(found.images), dtype=int)
    for frame in np.unique(frames):
        rows = np.flatnonzero(frames == frame)
        tracks[rows] = tracker.see(found.embedding[rows])
    write_csv(out, ["id", "frame", "track"], zip(found.images.ids, frames.tolist(), tracks.tolist(), strict=True))
    counts = {
        "detections": len(tracks),
        "frames": len(set(frames.tolist())),
        "tracks": int(tracks.max()) + 1,
        "nobody": int((tracks == UNASSIGNED).sum()),
    }
    if as_json:
        print_json({"file": str(out), **counts, "skipped": found.skipped})
    else:
        text = f"{counts['detections']} detections in {counts['frames']} frames, {counts['tracks']} tracks"
        print(f"{out}: {text}, {counts['nobody']} of nobody")
