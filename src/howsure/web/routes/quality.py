"""How good the answers are, and where everything lies."""

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
from howsure.web.service import Served
from howsure.web.state import State
from howsure.web.view import View

router = APIRouter(tags=["quality"])

BINS, LABELS = 40, 1_000
LATER = "every picture is being compared with every other: ask again"


@router.get("/gallery")
async def gallery(served: Served) -> schemas.Gallery:
    """What is served: the gallery, its model, and what a request may hold."""
    return await served.lookups.run(_gallery, served.state)


@router.get("/quality")
async def quality(served: Served) -> schemas.Quality:
    """Reliability, risk against coverage and the certificate, as calibration found them, and drift since the start."""
    return await served.comparisons.run(_quality, served.state)


@router.get("/map", response_model=schemas.Map)
async def plane(served: Served) -> Response:
    """Every item in the plane of the greatest spread, or in the model's own two dimensions.

    Of a large gallery, `error` comes once every picture has been compared with every other: ask again.
    """
    content, waiting = await served.lookups.run(_map_content, served.state)
    if waiting:
        served.comparisons.soon(_compare, served.state)
    return Response(content, media_type="application/json")


def _gallery(state: State) -> schemas.Gallery:
    view, policy = state.view(), state.policy
    labels = sorted({label for label in view.labels if label is not None})
    spread = len(view.ids) > 0 and float(np.ptp(view.uncertainty)) > 0
    counts, edges = np.histogram(view.uncertainty, BINS if spread else 1)
    return schemas.Gallery(
        name=state.name,
        items=len(view.ids),
        labels=labels[:LABELS],
        labels_left_out=max(0, len(labels) - LABELS),
        family=view.belief.family if view.belief else None,
        fields=list(view.belief.tensors()) if view.belief else [],
        dim=view.belief.dim if view.belief else None,
        calibrated=policy is not None,
        method=_method(state.embedder.card),
        uncertainty=schemas.Histogram(edges=edges.tolist(), counts=counts.tolist()) if spread else None,
        usual=policy.limits.uncertainty if policy else None,
        pictures=state.settings.pictures,
        bulk=state.settings.bulk,
        upload=state.settings.upload,
    )


def _method(card: dict[str, Any]) -> str | None:
    recipe = card.get("recipe")
    return str(recipe["method"]) if isinstance(recipe, dict) and "method" in recipe else None


def _quality(state: State) -> schemas.Quality:
    policy, drift = state.policy, state.gallery.drift
    roc = state.comparisons.strangers(state.view(), policy)
    unknown: dict[str, Any] = {
        "unknown_roc": None if isinstance(roc, str) else schemas.RocReply(**vars(roc)),
        "unknown_roc_why": roc if isinstance(roc, str) else None,
    }
    if policy is None:
        return schemas.Quality(
            calibrated=False, threshold=None, certificate=None, honesty={}, risk_coverage=[], drift=None, **unknown
        )
    wanted = schemas.CertificateReply.model_fields
    return schemas.Quality(
        calibrated=True,
        threshold=policy.threshold,
        certificate=schemas.CertificateReply(
            **{name: value for name, value in asdict(policy.certificate).items() if name in wanted}
        ),
        honesty={name: _honesty(said) for name, said in policy.honesty.items()},
        risk_coverage=_risk_coverage(policy.honesty["right"]) if "right" in policy.honesty else [],
        drift=schemas.DriftReply(watches=list(drift.watches), **asdict(drift.state)) if drift else None,
        **unknown,
    )


def _bins(said: CalibrationReport) -> list[schemas.Bin]:
    return [
        schemas.Bin(probability=told, happened=share, cases=count)
        for told, share, count in said.reliability
        if count and math.isfinite(told)
    ]


def _honesty(said: CalibrationReport) -> schemas.HonestyReply:
    return schemas.HonestyReply(event=said.event, ece=said.ece, brier=said.brier, cases=said.n, reliability=_bins(said))


def _risk_coverage(said: CalibrationReport) -> list[schemas.Point]:
    """Answer the surest bins first: after each, the share that is answered and the share of it that is wrong."""
    points, answered, wrong = [], 0, 0.0
    total = sum(one.cases for one in _bins(said))
    for one in sorted(_bins(said), key=lambda one: -one.probability):
        answered, wrong = answered + one.cases, wrong + one.cases * (1 - one.happened)
        points.append(
            schemas.Point(threshold=one.probability, coverage=answered / total, risk=max(0.0, wrong / answered))
        )
    return points


def _compare(state: State) -> None:
    state.comparisons.neighbours(state.view())


def _map_content(state: State) -> tuple[bytes, bool]:
    """The map as JSON, and whether to compare all pictures, so that the next one can say more."""
    view = state.view()
    around = state.comparisons.known(view)
    waiting = around is None and COMPARED >= len(view.ids) > 1 and any(label is not None for label in view.labels)

    def make() -> bytes:
        return _map(view, around, why=LATER if waiting else None).model_dump_json().encode()

    return state.maps.make("map", (view.changes, around is None), make), waiting


def _map(view: View, around: Neighbourhood | None, *, why: str | None) -> schemas.Map:
    codes, labels = codes_of(view.labels)
    errors = around.errors() if around else None
    told: dict[str, Any] = {
        "error": None if errors is None else errors.astype(int).tolist(),
        "error_why": None if errors is not None else why or "it takes labels, and two items or more",
    }
    if view.belief is None:
        nothing: list[Any] = []
        return schemas.Map(
            ids=[], x=[], y=[], xx=[], xy=[], yy=[], label=[], labels=nothing, uncertainty=[], explained=0.0, **told
        )
    flat = _plane(view.belief)
    places, spread = flat.project(view.belief), view.belief.mean.double().numpy().var(0).sum()
    covariance = np.einsum("pd,nd,qd->npq", flat.axes, view.belief.variance.double().numpy(), flat.axes, optimize=True)
    return schemas.Map(
        ids=view.ids,
        x=_short(places[:, 0]),
        y=_short(places[:, 1]),
        xx=_short(covariance[:, 0, 0]),
        xy=_short(covariance[:, 0, 1]),
        yy=_short(covariance[:, 1, 1]),
        label=codes.tolist(),
        labels=labels,
        uncertainty=_short(view.uncertainty),
        explained=float(places.var(0).sum() / spread) if spread else 1.0,
        **told,
    )


def _plane(belief: Embedding) -> Plane:
    """The plane of `map_plane`; of many items from their scatter, (D, D), which takes a fifth of the time."""
    mean = belief.mean.double().numpy()
    if belief.dim == 2 or len(mean) <= belief.dim:
        return map_plane(belief)
    centre = mean.mean(0)
    axes = np.linalg.eigh((mean - centre).T @ (mean - centre))[1].T[::-1][:2]
    return Plane(centre, np.pad(axes, ((0, 2 - len(axes)), (0, 0))))


def _short(values: np.ndarray) -> list[float]:
    """Six digits of the largest are as many as a screen can show, and a third of the bytes."""
    largest = float(np.abs(values).max())
    return np.round(values, 6 - math.ceil(math.log10(largest)) if largest else 0).tolist()
