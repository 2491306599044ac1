"""Errors as application/problem+json, in the words of `howsure.errors`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from howsure.errors import DataError, GalleryLockedError, GalleryUnavailableError, HowsureError, InputError
from howsure.web.schemas import Problem

__all__ = ["PROBLEMS", "RefusedError", "add_problems", "no_item", "problem", "problem_from"]

TYPE = "application/problem+json"
AGAIN = "2"  # seconds until it is worth trying again
STATUS: tuple[tuple[type[HowsureError], int], ...] = (
    (GalleryLockedError, 503),
    (GalleryUnavailableError, 503),
    (InputError, 422),
    (DataError, 422),
)
MEANT = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    403: "The request comes from another site.",
    404: "There is no such thing.",
    405: "There is no such method here.",
    408: "The request came in too slowly.",
    409: "It cannot be done in the state the gallery or the model is in.",
    413: "Too many bytes or pictures.",
    415: "The body is of another type.",
    421: "The request was meant for another host.",
    422: "Something in the request is not what it should be, a picture for example.",
    503: "Busy; `Retry-After` says when to try again.",
}
SCHEMA = {TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning, "content": SCHEMA} for status, meaning in MEANT.items()
}


class RefusedError(HowsureError):
    """What the server will not do, and the HTTP status that says so."""

    def __init__(self, status: int, what: str, *, expected: str = "", got: str = "", fix: str = ""):
        super().__init__(what, expected=expected, got=got, fix=fix)
        self.status = status


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """A response that says what went wrong."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail} | more
    headers = {"Retry-After": AGAIN} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse(body, status, headers=headers, media_type=TYPE)


def no_item(name: str) -> RefusedError:
    """What to raise for an id that the gallery does not have."""
    return RefusedError(404, f"item {name[:60]!r}", expected="an item of the gallery", got="none")


def problem_from(error: HowsureError) -> JSONResponse:
    """One of our errors, with its parts."""
    status = error.status if isinstance(error, RefusedError) else 409
    for error_type, known in STATUS:
        status = known if isinstance(error, error_type) else status
    parts = {"expected": error.expected, "got": error.got, "fix": error.fix}
    return problem(status, str(error), **{name: part for name, part in parts.items() if part})


def add_problems(app: FastAPI) -> None:
    """Every error of this app is a problem."""

    @app.exception_handler(HowsureError)
    async def ours(_: Request, error: HowsureError) -> JSONResponse:
        return problem_from(error)

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> JSONResponse:
        response = problem(error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # Where and why, not what: a value may be a whole picture.
        errors = [{"where": [str(part) for part in one["loc"]], "why": one["msg"]} for one in error.errors()]
        first = errors[0]
        return problem(422, f"{' '.join(first['where'])}: {first['why']}", errors=errors)
