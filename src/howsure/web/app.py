"""The web app, as ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from howsure import __version__
from howsure.web.limits import Guard
from howsure.web.problems import PROBLEMS, add_problems
from howsure.web.routes import audit, feedback, items, quality, search, service, suspects
from howsure.web.service import Service
from howsure.web.settings import Settings
from howsure.web.state import open_state

__all__ = ["create_app"]

STATIC = Path(__file__).parent / "static"
ABOUT = "Search a gallery of embeddings: match probabilities, and *not sure* or *unknown* with the reason."


def create_app(gallery: str | Path, settings: Settings | None = None) -> FastAPI:
    """An app over a gallery and the model that made it. Both are opened now, and closed when the app shuts down."""
    settings = settings or Settings()
    served = Service(open_state(gallery, settings), settings, search.answer_all)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        served.close()

    app = FastAPI(
        title="howsure",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = served
    add_problems(app)
    api = APIRouter(prefix="/api/v1", responses=PROBLEMS)
    for subject in (search, items, suspects, quality, feedback, audit):
        api.include_router(subject.router)
    api.include_router(service.session)
    app.include_router(api)
    app.include_router(service.router, responses=PROBLEMS)
    app.mount("/", StaticFiles(directory=STATIC, html=True), name="static")
    app.add_middleware(Guard, settings=settings, counters=served.counters)
    return app
