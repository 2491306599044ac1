"""What may be wrong in the gallery, and which pictures of an identity are worth keeping."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from fastapi import APIRouter, Path, Query

from howsure.compare import rms_distance
from howsure.index.identities import best_pictures
from howsure.web.gallery_review import codes_of
from howsure.web.problems import RefusedError
from howsure.web.schemas import Best, LabelError, Suspects, Twins
from howsure.web.service import Served
from howsure.web.state import State

router = APIRouter(tags=["suspects"])

LOOKED_AT = 2_000  # pictures of one identity, the surest: all pairs of them are compared


@router.get("/suspects")
async def suspects(
    served: Served, limit: Annotated[int, Query(ge=1, le=500, description="At most so many of each.")] = 50
) -> Suspects:
    """Pictures that are there twice, and labels that the neighbours contradict, the surest first.

    The first call compares every picture with every other; later ones are quick until the gallery changes.
    """
    return await served.comparisons.run(_suspects, served.state, limit)


@router.get("/identities/{label:path}/best")
async def best(
    served: Served,
    label: Annotated[str, Path(description="A label of the gallery.")],
    count: Annotated[int, Query(ge=1, le=100, description="How many.")] = 5,
) -> Best:
    """The pictures of an identity that show it best: each stands for those that are nearest to it."""
    return await served.comparisons.run(_best, served.state, label, count)


def _suspects(state: State, limit: int) -> Suspects:
    view = state.view()
    if len(view.ids) < 2:
        return Suspects(duplicates=[], label_errors=[])
    around, matcher = state.neighbours(view), state.gallery.matcher
    names = codes_of(view.labels)[1]
    twins = around.twins()[:limit]
    far = torch.tensor([distance for _, _, distance in twins], dtype=torch.float64)
    same = matcher.probability(far).tolist() if matcher else [None] * len(twins)
    wrong = around.label_errors(matcher)[:limit] if matcher else []
    return Suspects(
        duplicates=[
            Twins(a=view.ids[a], b=view.ids[b], probability=p) for (a, b, _), p in zip(twins, same, strict=True)
        ],
        label_errors=[
            LabelError(id=view.ids[row], label=str(view.labels[row]), suggested=names[code], probability=p)
            for row, code, p in wrong
        ],
    )


def _best(state: State, label: str, count: int) -> Best:
    view = state.view()
    rows = np.array([row for row, name in enumerate(view.labels) if name == label], int)
    if view.embedding is None or not len(rows):
        raise RefusedError(404, f"label {label[:60]!r}", expected="a label of the gallery", got="none")
    surest = np.sort(rows[np.argsort(view.uncertainty[rows], kind="stable")[:LOOKED_AT]])
    embedding = view.embedding[surest].to("cpu", torch.float64)
    chosen = best_pictures(embedding, [label] * len(surest), count)
    stands_for = np.bincount(rms_distance(embedding, embedding[chosen]).argmin(1).numpy(), minlength=len(chosen))
    order = np.argsort(-stands_for, kind="stable")
    return Best(
        ids=[view.ids[surest[chosen[row]]] for row in order],
        why=[_why(int(stands_for[row]), len(surest)) for row in order],
    )


def _why(near: int, count: int) -> str:
    if count == 1:
        return "the only picture"
    return f"nearest to {near} of {count} pictures" if near > 1 else "a view of its own"
