"""Queries that were drawn by lot: which of them wait for a verdict, and the verdicts."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Response

from howsure.decide import Audit, DrawnQuery, Verdict
from howsure.errors import DataError
from howsure.web.audit_schemas import AuditReply, Given, Judged, Waiting
from howsure.web.pictures import picture_in
from howsure.web.problems import RefusedError
from howsure.web.service import Served
from howsure.web.state import State

router = APIRouter(tags=["audit"])


@router.get("/audit")
async def waiting(served: Served) -> AuditReply:
    """The drawn queries that wait for a verdict, the first first: calibration uses them in this order, without gaps."""
    return await served.lookups.run(_waiting, served.state)


@router.get(
    "/audit/{number}/picture",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "What was asked about."}},
)
async def picture(served: Served, number: str) -> Response:
    """The picture of a drawn query."""
    content = await served.thumbnails.run(_picture, served.state, number)
    return Response(content, media_type="image/png")


@router.post("/audit/{number}")
async def judge(served: Served, number: str, given: Given) -> Judged:
    """Say what a drawn query shows, in place of what was said before. On disk when the reply comes."""
    return await served.lookups.run(_judge, served.state, number, given)


def _waiting(state: State) -> AuditReply:
    queries = state.audit.queries() if state.audit else []
    left = [one for one in queries if one.verdict is None]
    return AuditReply(
        drawn=len(queries),
        waiting=[
            Waiting(id=one.id, drawn=one.drawn, answer=one.answer, best=one.best, picture=_has_picture(one))
            for one in left
        ],
    )


def _has_picture(query: DrawnQuery) -> bool:
    return query.path is not None and Path(query.path).is_file()


def _picture(state: State, number: str) -> bytes:
    _, query = _drawn(state, number)
    try:
        if query.path is None:
            raise DataError("picture", got="none")
        return picture_in(Path(query.path))
    except DataError as error:
        what = f"picture of query {query.id}"
        raise RefusedError(404, what, expected="a picture", got="none that can be read") from error


def _judge(state: State, number: str, given: Given) -> Judged:
    said = [given.label is not None, given.unknown, given.unclear]
    if sum(said) != 1:
        raise RefusedError(422, "verdict", expected="one of label, unknown and unclear", got=str(sum(said)))
    audit, query = _drawn(state, number)
    verdict = Verdict("label", given.label) if said[0] else Verdict("unknown" if given.unknown else "unclear")
    return Judged(id=query.id, replaced=bool(audit.judge({query.id: verdict})))


def _drawn(state: State, number: str) -> tuple[Audit, DrawnQuery]:
    if state.audit:
        for query in state.audit.queries():
            if query.id == number:
                return state.audit, query
    raise RefusedError(404, f"query {number[:60]!r}", expected="the number of one that was drawn", got="none of these")
