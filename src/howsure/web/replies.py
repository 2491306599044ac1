"""Records as responses. They were checked when they were made; doing it again would take longer than most searches."""

from __future__ import annotations

from fastapi import Response

from howsure.web.schemas import Wire

__all__ = ["as_json"]


def as_json(record: Wire) -> Response:
    """A record as JSON."""
    return Response(record.model_dump_json(), media_type="application/json")
