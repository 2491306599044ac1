"""Is it up, how is it doing, and who is asking?"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from howsure import __version__
from howsure.web.limits import COOKIE
from howsure.web.schemas import Health
from howsure.web.service import Served

router = APIRouter(tags=["service"])
session = APIRouter(tags=["service"])


@router.get("/health")
async def health() -> Health:
    """The server is up. Needs no token."""
    return Health(version=__version__)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "Prometheus text."}},
)
async def metrics(served: Served) -> Response:
    """Numbers about this server, for Prometheus."""
    items = await served.lookups.run(served.state.index.__len__)
    text = served.counters.text(items=items, pending=served.pending)
    return Response(text, media_type="text/plain; version=0.0.4")


@session.post("/session", status_code=204)
async def begin(served: Served, request: Request) -> Response:
    """Keep the token of this request in a cookie, because a browser sends no header when it loads a picture."""
    response = Response(status_code=204)
    if served.settings.token is not None:
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, served.settings.token, httponly=True, samesite="strict", secure=secure)
    return response
