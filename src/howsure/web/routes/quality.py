"""How good the answers are, and a map of the gallery."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from howsure.decide import CalibrationReport
from howsure.embeddings import Embedding
from howsure.plots.figures import Plane
from howsure.plots.outlines import map_plane
from howsure.web import schemas
from howsure.web.gallery_review import MOST as COMPARED
from howsure.web.gallery_review import Neighbourhood, codes_of
from howsure.web.schemas import CertificateReply
from howsure.web.service import Served
from howsure.web.settings import Settings
from howsure.web.state import State
from howsure.web.view import View

router = APIRouter(tags=["quality"])

BINS, LABELS = 40, 1_000
QUICK = 4_000  # items that are compared in well under a second
LATER = "every picture is being compared with every other: ask again"


@router.get("/gallery")
async def gallery(served: Served) -> schemas.GalleryReply:
    """What is served: the gallery, its model, and what a request may hold."""
    return await served.lookups.run(_gallery, served.state, served.settings)


@router.get("/quality")
async def quality(served: Served) -> schemas.Quality:
    """Reliability, risk against coverage and the certificate, as calibration found them, and drift since the start."""
    return await served.comparisons.run(_quality, served.state)


@router.get("/map", response_model=schemas.Map)
async def plane(served: Served) -> Response:
    """Every item in the plane of the greatest variance, or in the model's own two dimensions.

    Of a large gallery, `error` comes once every picture has been compared with every other: ask again.
    """
    content, waiting = await served.lookups.run(_map_content, served.state)
    if waiting:
        served.comparisons.soon(lambda: served.state.neighbours(served.state.view()))
    return Response(content, media_type="application/json")


def _gallery(state: State, settings: Settings) -> schemas.GalleryReply:
    view, policy = state.view(), state.gallery.policy
    labels = sorted({label for label in view.labels if label is not None})
    varies = len(view.ids) > 0 and float(np.ptp(view.uncertainty)) > 0
    counts, edges = np.histogram(view.uncertainty, BINS if varies else 1)
    return schemas.GalleryReply(
        name=state.name,
        items=len(view.ids),
        labels=labels[:LABELS],
        labels_left_out=max(0, len(labels) - LABELS),
        family=view.embedding.family if view.embedding else None,
        fields=list(view.embedding.tensors()) if view.embedding else [],
        dim=view.embedding.dim if view.embedding else None,
        calibrated=policy is not None,
        method=state.gallery.embedder.card.get("recipe", {}).get("method"),
        uncertainty=schemas.Histogram(edges=edges.tolist(), counts=counts.tolist()) if varies else None,
        usual=policy.limits.uncertainty if policy else None,
        pictures=settings.pictures,
        bulk=settings.bulk,
        upload=settings.upload,
    )


def _quality(state: State) -> schemas.Quality:
    policy, drift = state.gallery.policy, state.gallery.drift
    roc = state.unknown_roc(state.view())
    reports = policy.honesty if policy else {}
    return schemas.Quality(
        calibrated=policy is not None,
        threshold=policy.threshold if policy else None,
        certificate=CertificateReply.model_validate(policy.certificate, from_attributes=True) if policy else None,
        stale=list(policy.stale_in(state.index)) if policy else [],
        honesty={name: _honesty(report) for name, report in reports.items()},
        risk_coverage=_risk_coverage(_bins(reports["right"])) if "right" in reports else [],
        drift=schemas.DriftReply(watches=list(drift.watches), **asdict(drift.state)) if drift else None,
        unknown_roc=None if isinstance(roc, str) else roc,
        unknown_roc_why=roc if isinstance(roc, str) else None,
    )


def _honesty(report: CalibrationReport) -> schemas.HonestyReply:
    return schemas.HonestyReply(
        event=report.event, ece=report.ece, brier=report.brier, cases=report.n, reliability=_bins(report)
    )


def _bins(report: CalibrationReport) -> list[schemas.Bin]:
    return [
        schemas.Bin(probability=probability, happened=share, cases=count)
        for probability, share, count in report.reliability
        if count and math.isfinite(probability)
    ]


def _risk_coverage(bins: list[schemas.Bin]) -> list[schemas.Point]:
    """Answer the surest bins first: after each, the share that is answered and the share of it that is wrong."""
    points, answered, wrong = [], 0, 0.0
    total = sum(one.cases for one in bins)
    for one in sorted(bins, key=lambda one: -one.probability):
        answered, wrong = answered + one.cases, wrong + one.cases * (1 - one.happened)
        risk = max(0.0, wrong / answered)
        points.append(schemas.Point(threshold=one.probability, coverage=answered / total, risk=risk))
    return points


def _map_content(state: State) -> tuple[bytes, bool]:
    """The map as JSON, and whether to compare all pictures, so that the next one can show errors."""
    view = state.view()
    around = state.neighbours(view) if 2 <= len(view.ids) <= QUICK else view.neighbourhood
    waiting = around is None and COMPARED >= len(view.ids) > 1 and any(label is not None for label in view.labels)
    if waiting not in view.maps:
        view.maps[waiting] = _map(view, around, why=LATER if waiting else None).model_dump_json().encode()
    return view.maps[waiting], waiting


def _map(view: View, around: Neighbourhood | None, *, why: str | None) -> schemas.Map:
    codes, labels = codes_of(view.labels)
    errors = around.errors() if around else None
    marks: dict[str, Any] = {
        "error": None if errors is None else errors.astype(int).tolist(),
        "error_why": None if errors is not None else why or "it takes labels, and two items or more",
    }
    if view.embedding is None:
        empty: dict[str, Any] = {name: [] for name in schemas.Map.model_fields}
        return schemas.Map(**empty | marks | {"explained": 0.0})
    flat, variance = _plane(view.embedding), view.embedding.variance.double().numpy()
    means, total = flat.project(view.embedding), view.embedding.mean.double().numpy().var(0).sum()
    covariance = np.einsum("pd,nd,qd->npq", flat.axes, variance, flat.axes, optimize=True)
    return schemas.Map(
        ids=view.ids,
        x=_short(means[:, 0]),
        y=_short(means[:, 1]),
        xx=_short(covariance[:, 0, 0]),
        xy=_short(covariance[:, 0, 1]),
        yy=_short(covariance[:, 1, 1]),
        label=codes.tolist(),
        labels=labels,
        uncertainty=_short(view.uncertainty),
        explained=float(means.var(0).sum() / total) if total else 1.0,
        **marks,
    )


def _plane(embedding: Embedding) -> Plane:
    """The plane of `map_plane`; of many items from their scatter, (D, D), which takes a fifth of the time."""
    mean = embedding.mean.double().numpy()
    if embedding.dim == 2 or len(mean) <= embedding.dim:
        return map_plane(embedding)
    centre = mean.mean(0)
    axes = np.linalg.eigh((mean - centre).T @ (mean - centre))[1].T[::-1][:2]
    return Plane(centre, np.pad(axes, ((0, 2 - len(axes)), (0, 0))))


def _short(values: np.ndarray) -> list[float]:
    """Six digits of the largest are as many as a screen can show, and a third of the bytes."""
    largest = float(np.abs(values).max())
    return np.round(values, 6 - math.ceil(math.log10(largest)) if largest else 0).tolist()
