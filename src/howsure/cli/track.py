"""howsure track: who is who from frame to frame."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from howsure.cli.console import Json, Strict, device, print_json, progress, report_skipped, skipped_json
from howsure.errors import InputError, ModelError

FIRM = 0.95  # the share of detections that are sure enough to begin a track


def track(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Detections; the label (a folder each) is the frame.")],
    model: Annotated[Path, typer.Option("-m", "--model", help="A model directory.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.csv", help="Where tracks are written.")],
    plain: Annotated[bool, typer.Option("--plain", help="Do not listen to confidence.")] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Give every detection the number of its track: id, frame and track, as CSV; frames in the order of their names.

    Two detections of a frame never share a track. One that fits nowhere begins a track; if it is doubtful, it gets none
    (-1).
    """
    if out.suffix != ".csv":
        raise InputError("out", expected="a name that ends in .csv", got=str(out))
    import numpy as np

    from howsure import data as pictures
    from howsure.embedder import Embedder
    from howsure.files import write_whole
    from howsure.match import Matcher
    from howsure.tasks.tracking import UNASSIGNED, Tracker

    embedder = Embedder.load(model).to(device())
    fitted = embedder.card.get("matcher")
    if fitted is None:
        raise ModelError(f"{model} cannot tell probabilities", fix="train it on pictures that can be held out")
    images = pictures.load(data)
    if None in images.labels:
        raise InputError(f"frames of {images.name}", expected="one for every detection", got="some missing")
    with progress(f"embedding {images.name}", len(images)) as bar:
        found = embedder.encode_set(images, strict=strict, progress=bar)
    report_skipped(found.skipped)
    doubt = found.embedding.uncertainty.double()
    tracker = Tracker(
        Matcher(**fitted).at(0.5),
        reference=float(doubt.median()),
        max_uncertainty=float(doubt.quantile(FIRM)),
        weighted=not plain,
    )
    frames, tracks = np.array(found.images.labels, dtype=str), np.empty(len(found.images), dtype=int)
    for frame in np.unique(frames):
        rows = np.flatnonzero(frames == frame)
        tracks[rows] = tracker.see(found.embedding[rows])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "frame", "track"])
    writer.writerows(zip(found.images.ids, frames.tolist(), tracks.tolist(), strict=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, text.getvalue().encode())
    counts = {
        "detections": len(tracks),
        "frames": len(set(frames.tolist())),
        "tracks": int(tracks.max()) + 1,
        "nobody": int((tracks == UNASSIGNED).sum()),
    }
    if as_json:
        print_json({"file": str(out), **counts, "skipped": skipped_json(found.skipped)})
    else:
        print(
            f"{out}: {counts['detections']} detections in {counts['frames']} frames, {counts['tracks']} tracks,",
            end=" ",
        )
        print(f"{counts['nobody']} of nobody")
