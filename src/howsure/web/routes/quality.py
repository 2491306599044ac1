"""How good the answers are, and where everything lies."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from fastapi import APIRouter

from howsure.bench.outlines import map_plane
from howsure.decide import Honesty
from howsure.web import schemas
from howsure.web.service import Served
from howsure.web.state import State

router = APIRouter(tags=["quality"])

BINS, LABELS = 40, 1_000


@router.get("/gallery")
async def gallery(served: Served) -> schemas.Gallery:
    """What is served: the gallery, its model, and what a request may hold."""
    return await served.lookups.run(_gallery, served.state)


@router.get("/quality")
async def quality(served: Served) -> schemas.Quality:
    """Reliability, risk against coverage and the certificate, as calibration found them, and drift since the start."""
    return await served.lookups.run(_quality, served.state)


@router.get("/map")
async def plane(served: Served) -> schemas.Map:
    """Every item in the plane of the greatest spread, or in the model's own two dimensions."""
    return await served.lookups.run(_map, served.state)


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
        upload=state.settings.upload,
    )


def _method(card: dict[str, Any]) -> str | None:
    recipe = card.get("recipe")
    return str(recipe["method"]) if isinstance(recipe, dict) and "method" in recipe else None


def _quality(state: State) -> schemas.Quality:
    policy, drift = state.policy, state.drift
    if policy is None:
        return schemas.Quality(
            calibrated=False, threshold=None, certificate=None, honesty={}, risk_coverage=[], drift=None
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
    )


def _bins(said: Honesty) -> list[schemas.Bin]:
    return [
        schemas.Bin(probability=told, happened=share, cases=count)
        for told, share, count in said.reliability
        if count and math.isfinite(told)
    ]


def _honesty(said: Honesty) -> schemas.HonestyReply:
    return schemas.HonestyReply(event=said.event, ece=said.ece, brier=said.brier, cases=said.n, reliability=_bins(said))


def _risk_coverage(said: Honesty) -> list[schemas.Point]:
    """Answer the surest bins first: after each, the share that is answered and the share of it that is wrong."""
    points, answered, wrong = [], 0, 0.0
    total = sum(one.cases for one in _bins(said))
    for one in sorted(_bins(said), key=lambda one: -one.probability):
        answered, wrong = answered + one.cases, wrong + one.cases * (1 - one.happened)
        points.append(
            schemas.Point(threshold=one.probability, coverage=answered / total, risk=max(0.0, wrong / answered))
        )
    return points


def _map(state: State) -> schemas.Map:
    view = state.view()
    labels = sorted({label for label in view.labels if label is not None})
    codes = {label: code for code, label in enumerate(labels)}
    if view.belief is None:
        nothing: list[Any] = []
        return schemas.Map(
            ids=[], x=[], y=[], xx=[], xy=[], yy=[], label=[], labels=nothing, uncertainty=[], explained=0.0
        )
    flat = map_plane(view.belief)
    places, spread = flat.places(view.belief), view.belief.mean.double().numpy().var(0).sum()
    covariance = np.einsum("pd,nd,qd->npq", flat.axes, view.belief.variance.double().numpy(), flat.axes, optimize=True)
    return schemas.Map(
        ids=view.ids,
        x=_short(places[:, 0]),
        y=_short(places[:, 1]),
        xx=_short(covariance[:, 0, 0]),
        xy=_short(covariance[:, 0, 1]),
        yy=_short(covariance[:, 1, 1]),
        label=[-1 if label is None else codes[label] for label in view.labels],
        labels=labels,
        uncertainty=_short(view.uncertainty),
        explained=float(places.var(0).sum() / spread) if spread else 1.0,
    )


def _short(values: np.ndarray) -> list[float]:
    """Six digits of the largest are as many as a screen can show, and a third of the bytes."""
    largest = float(np.abs(values).max())
    return np.round(values, 6 - math.ceil(math.log10(largest)) if largest else 0).tolist()
