"""Feedback on matches."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Response

from howsure.web.schemas import Feedback, FeedbackPairs, Pair
from howsure.web.service import Served
from howsure.web.state import State

router = APIRouter(tags=["feedback"])


@router.post("/feedback", status_code=201)
async def give(served: Served, feedback: Feedback) -> Pair:
    """Say that a query and an item show the same, or that they do not. On disk when the reply comes."""
    return await served.lookups.run(_give, served.state, feedback)


@router.get("/feedback")
async def pairs(served: Served) -> FeedbackPairs:
    """All feedback as pairs."""
    return FeedbackPairs(pairs=await served.lookups.run(served.state.feedback.pairs))


@router.get(
    "/feedback.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "One row a pair."}},
)
async def export(served: Served) -> Response:
    """The same as a table."""
    table = await served.lookups.run(served.state.feedback.csv)
    return Response(
        table, media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="feedback.csv"'}
    )


def _give(state: State, feedback: Feedback) -> Pair:
    state.require([feedback.item])
    pair = Pair(
        query=feedback.query,
        picture=None,
        item=feedback.item,
        item_label=state.index.labels([feedback.item])[0],
        same=feedback.same,
        label=feedback.label,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return state.feedback.add(pair, state.recent.get(feedback.query))
