"""Feedback on matches."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Response

from howsure.decide import Verdict
from howsure.web.schemas import Feedback, FeedbackPairs, Pair
from howsure.web.service import Served
from howsure.web.state import State

router = APIRouter(tags=["feedback"])


@router.post("/feedback", status_code=201)
async def give(served: Served, feedback: Feedback) -> Pair:
    """Say that a query and an item show the same, or that they do not. On disk when the reply comes.

    If the query was drawn for the audit, that is a verdict on it too: the label that is given, or that of the item.
    """
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
    label = state.index.labels([feedback.item])[0]
    _judge(state, feedback, label or f"item {feedback.item}")
    pair = Pair(
        query=feedback.query,
        picture=None,
        item=feedback.item,
        item_label=label,
        same=feedback.same,
        label=feedback.label,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return state.feedback.add(pair, state.recent.get(feedback.query))


def _judge(state: State, feedback: Feedback, identity: str) -> None:
    """The verdict that follows for a drawn query; that it is not the same takes one back that said so."""
    drawn = [one for one in state.audit.queries() if one.name == feedback.query] if state.audit else []
    shown = feedback.label or (identity if feedback.same else None)
    if state.audit and drawn and shown is not None:
        state.audit.judge({one.id: Verdict("label", shown) for one in drawn})
    elif state.audit and (wrong := [one.id for one in drawn if one.verdict == Verdict("label", identity)]):
        state.audit.judge(dict.fromkeys(wrong))
