"""howsure evaluate: every metric, with the name of its convention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Seed, Strict, print_json, say
from howsure.cli.model import encode, load_model

if TYPE_CHECKING:
    from howsure.embedder import Encoded
    from howsure.evaluation.model import Metric

CLEAN = "clean"


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled pictures that the model was not trained on.")],
    ood: Annotated[str | None, typer.Option(help="OOD pictures, to be told apart.")] = None,
    corrupt: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:SEVERITY",
            help="Also measure the same pictures made worse: noise, blur, occlusion, contrast, "
            "resolution, jpeg, darkness, overexposure or digit-occlusion, from 1 to 5, such as blur:3.",
        ),
    ] = None,
    map_: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="Draw the embeddings as a map there, .svg or .png.")
    ] = None,
    sheets: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write pictures of the most and the least certain items there.")
    ] = None,
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure a model: retrieval, verification, selective prediction, calibration, OOD detection."""
    from howsure.data.corruptions import corrupted_set, corruption_named
    from howsure.decide import Policy
    from howsure.evaluation.answer_calibration import answer_metrics, calibration_reports
    from howsure.evaluation.model import evaluate_embeddings as measure
    from howsure.plots.figures import require_matplotlib
    from howsure.plots.map_files import map_file
    from howsure.plots.sheets import sheets_folder

    embedder = load_model(model)
    worse = corruption_named(corrupt) if corrupt else None
    folder = sheets_folder(sheets) if sheets else None
    if map_ is not None:
        require_matplotlib()
        map_file(map_)
    known = encode(embedder, data, strict=strict, labelled=True)
    others = encode(embedder, ood, strict=strict) if ood else None
    labels = [str(label) for label in known.images.labels]
    encoded = {CLEAN: known}
    if worse:
        encoded[str(worse)] = encode(embedder, corrupted_set(known.images, worse, seed=seed), strict=strict)
    policy = Policy.load(model, model=embedder.fingerprint)
    # A policy that compares means has a matcher of their distances.
    matcher = policy.matcher if policy and policy.choice.by == "distance" else embedder.matcher
    unlike = others.embedding if others else None
    rows, reliability = {}, {}
    for name, one in encoded.items():
        rows[name] = measure(one.embedding, labels, matcher=matcher, ood=unlike, seed=seed)
        if policy:
            reports = calibration_reports(policy, one.embedding, labels)
            rows[name] += answer_metrics(reports)
            reliability[name] = {event: report.reliability for event, report in reports.items()}
    written = _write_sheets(folder, encoded) if folder else []
    if map_ is not None:
        _draw_map(map_, encoded, labels, seed=seed)
    if not as_json:
        _print_table(rows)
        for file in [*written, *([map_] if map_ else [])]:
            say(f"wrote {file}")
        return
    print_json(
        {
            "model": str(model),
            "data": known.images.name,
            "ood": others.images.name if others else None,
            "pictures": len(known.images),
            "metrics": _metrics_json(rows[CLEAN]),
            "corrupted": {"corruption": str(worse), "metrics": _metrics_json(rows[str(worse)])} if worse else None,
            "reliability": reliability.get(CLEAN, {}),
            "sheets": [str(file) for file in written],
            "map": str(map_) if map_ else None,
            "skipped": [*known.skipped, *(others.skipped if others else ())],
        }
    )


def _write_sheets(folder: Path, encoded: dict[str, Encoded]) -> list[Path]:
    """Those of the clean pictures in the folder itself, those of the others below it."""
    from howsure.plots.sheets import sheets_folder, write_sheets

    folders = {name: folder if name == CLEAN else sheets_folder(folder / name.replace(":", "-")) for name in encoded}
    return [file for name, one in encoded.items() for file in write_sheets(folders[name], one.images, one.embedding)]


def _draw_map(file: Path, encoded: dict[str, Encoded], labels: Sequence[str], *, seed: int) -> None:
    from howsure.plots.map_files import write_map
    from howsure.plots.maps import View, embedding_map, map_rows

    rows = map_rows(labels, seed=seed)
    count = f"{len(rows):,} of {len(labels):,} pictures"
    views = [
        View(f"{name}, {count}" if name == CLEAN else name, one.embedding[rows], one.images.subset(rows))
        for name, one in encoded.items()
    ]
    alt = f"Map of the embeddings of {count} of {encoded[CLEAN].images.name}, {' and '.join(encoded)}"
    write_map(file, embedding_map(views, [labels[row] for row in rows]), alt=alt)


def _print_table(rows: dict[str, list[Metric]]) -> None:
    """A line a metric, a column a set of pictures; what the data leave undefined is a dash."""
    conventions = {row.name: row.convention for column in reversed(rows.values()) for row in column}
    values = {name: {row.name: row.value for row in column} for name, column in rows.items()}
    names = dict.fromkeys(row.name for column in rows.values() for row in column)
    width = max(map(len, names))
    if len(rows) > 1:
        print(" " * width, *(f" {column:>8}" for column in rows))
    for name in names:
        cells = []
        for column in rows:
            value = values[column].get(name)
            cells.append(f" {'-' if value is None else f'{value:.4f}':>{max(8, len(column))}}")
        print(f"{name:<{width}}", *cells, f" {conventions[name]}")


def _metrics_json(rows: Sequence[Metric]) -> dict[str, dict[str, float | str | None]]:
    return {row.name: {"value": row.value, "convention": row.convention} for row in rows}
