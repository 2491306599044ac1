"""What the API says of queries that were drawn by lot, and what it is told."""

from __future__ import annotations

from pydantic import Field

from howsure.web.schemas import Kind, Label, Wire


class Waiting(Wire):
    """A query that was drawn by lot, and has no verdict yet."""

    id: str = Field(description="Its number in the order of drawing.")
    drawn: str
    answer: Kind
    best: str | None = Field(description="Label, or id, of the best match then.")
    picture: bool = Field(description="Whether there is one.")


class AuditReply(Wire):
    """The drawn queries that wait for a verdict, the first first."""

    drawn: int = Field(description="How many there are in all.")
    waiting: list[Waiting]


class Given(Wire):
    """A verdict: one of the three."""

    label: Label | None = Field(None, description="What it shows.")
    unknown: bool = Field(False, description="What it shows is not in the gallery.")
    unclear: bool = Field(False, description="Nobody can tell. It counts as unknown, so that any match is wrong.")


class Judged(Wire):
    """The verdict is on disk."""

    id: str
    replaced: bool = Field(description="There was one before.")
