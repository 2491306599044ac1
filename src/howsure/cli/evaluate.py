"""howsure evaluate: every metric, with the name of its convention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from howsure.cli.console import Json, Seed, Strict, device, print_json, progress, report_skipped, say, skipped_json
from howsure.errors import InputError

if TYPE_CHECKING:
    from howsure.data import ImageSet
    from howsure.embedder import Embedder, Encoded
    from howsure.evaluation.model import Metric
    from howsure.match import Matcher

CLEAN = "clean"


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Labelled pictures that the model was not trained on.")],
    ood: Annotated[str | None, typer.Option(help="Pictures of another kind, to be told apart.")] = None,
    corrupt: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:SEVERITY",
            help="Show beside it what becomes of the same pictures made worse: noise, blur, occlusion, contrast, "
            "resolution, jpeg or digit-occlusion, from 1 to 5, such as blur:3.",
        ),
    ] = None,
    map_: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="Draw the beliefs as a map there, .svg or .png.")
    ] = None,
    sheets: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write pictures of the most and the least certain items there.")
    ] = None,
    seed: Seed = 0,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Measure a model: retrieval, verification, selective prediction, calibration, detection of foreign pictures."""
    from howsure import data as pictures
    from howsure.data.corrupted import corrupted_set, corruption_named
    from howsure.decide import Policy
    from howsure.embedder import Embedder
    from howsure.evaluation.answer_calibration import answer_metrics, calibration_reports
    from howsure.evaluation.model import evaluate_embeddings as measure
    from howsure.plots.figures import require_matplotlib
    from howsure.plots.map_files import map_file
    from howsure.plots.sheets import sheets_folder

    embedder = Embedder.load(model).to(device())
    worse = corruption_named(corrupt) if corrupt else None
    folder = sheets_folder(sheets) if sheets else None
    if map_ is not None:
        require_matplotlib()
        map_file(map_)
    known = _encoded(embedder, pictures.load(data), strict=strict)
    foreign = _encoded(embedder, pictures.load(ood), strict=strict) if ood else None
    labels = _labels(known.images)
    seen = {CLEAN: known}
    if worse:
        seen[str(worse)] = _encoded(embedder, corrupted_set(known.images, worse, seed=seed), strict=strict)
    policy = Policy.load(model, model=embedder.fingerprint)
    matcher = policy.matcher if policy else _first_matcher(embedder)
    strangers = foreign.embedding if foreign else None
    rows = {
        name: measure(one.embedding, labels, matcher=matcher, ood=strangers, seed=seed) for name, one in seen.items()
    }
    judged = {name: calibration_reports(policy, one.embedding, labels) for name, one in seen.items()} if policy else {}
    for name, honesty in judged.items():
        rows[name] += answer_metrics(honesty)
    written = _write_sheets(folder, seen) if folder else []
    if map_ is not None:
        _draw_map(map_, seen, labels, seed=seed)
    if not as_json:
        _print_table(rows)
        for file in [*written, *([map_] if map_ else [])]:
            say(f"wrote {file}")
        return
    print_json(
        {
            "model": str(model),
            "data": known.images.name,
            "ood": foreign.images.name if foreign else None,
            "pictures": len(known.images),
            "metrics": _metrics_json(rows[CLEAN]),
            "corrupted": {"corruption": str(worse), "metrics": _metrics_json(rows[str(worse)])} if worse else None,
            "reliability": {name: honesty.reliability for name, honesty in judged.get(CLEAN, {}).items()},
            "sheets": [str(file) for file in written],
            "map": str(map_) if map_ else None,
            "skipped": skipped_json([*known.skipped, *(foreign.skipped if foreign else ())]),
        }
    )


def _encoded(embedder: Embedder, images: ImageSet, *, strict: bool) -> Encoded:
    with progress(f"embedding {images.name}", len(images)) as bar:
        done = embedder.encode_set(images, strict=strict, progress=bar)
    report_skipped(done.skipped)
    return done


def _labels(images: ImageSet) -> list[str]:
    if None in images.labels:
        missing = images.labels.count(None)
        raise InputError(f"labels of {images.name}", expected="one for every picture", got=f"{missing} missing")
    return [str(label) for label in images.labels]


def _first_matcher(embedder: Embedder) -> Matcher | None:
    """What training left."""
    from howsure.match import Matcher

    first = embedder.card.get("matcher")
    return Matcher(**first) if first else None


def _write_sheets(folder: Path, seen: dict[str, Encoded]) -> list[Path]:
    """Those of the clean pictures in the folder itself, those of the others below it."""
    from howsure.plots.sheets import sheets_folder, write_sheets

    places = {name: folder if name == CLEAN else sheets_folder(folder / name.replace(":", "-")) for name in seen}
    return [file for name, one in seen.items() for file in write_sheets(places[name], one.images, one.embedding)]


def _draw_map(file: Path, seen: dict[str, Encoded], labels: Sequence[str], *, seed: int) -> None:
    from howsure.plots.map_files import write_map
    from howsure.plots.maps import View, embedding_map, map_rows

    rows = map_rows(labels, seed=seed)
    count = f"{len(rows):,} of {len(labels):,} pictures"
    views = [
        View(f"{name}, {count}" if name == CLEAN else name, one.embedding[rows], one.images.subset(rows))
        for name, one in seen.items()
    ]
    alt = f"Map of beliefs about {count} of {seen[CLEAN].images.name}, {' and '.join(seen)}"
    write_map(file, embedding_map(views, [labels[row] for row in rows]), alt=alt)


def _print_table(rows: dict[str, list[Metric]]) -> None:
    """A line a metric, a column a set of pictures; what the data leave undefined is a dash."""
    said = {row.name: row.convention for column in reversed(rows.values()) for row in column}
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
        print(f"{name:<{width}}", *cells, f" {said[name]}")


def _metrics_json(rows: Sequence[Metric]) -> dict[str, dict[str, float | str | None]]:
    return {row.name: {"value": row.value, "convention": row.convention} for row in rows}
