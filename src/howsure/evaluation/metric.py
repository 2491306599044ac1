"""A number and its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from howsure.errors import CalibrationError, InputError

__all__ = ["Metric", "defined"]


@dataclass(frozen=True)
class Metric:
    """A number and its definition; `value` is None where the data do not define it, and `convention` says why."""

    name: str
    value: float | None
    convention: str


def defined(name: str, measure: Callable[[], float], how: str) -> Metric:
    """A metric, or the reason why the data do not define it."""
    try:
        return Metric(name, measure(), how)
    except (InputError, CalibrationError) as error:
        return Metric(name, None, f"not defined here: {error}")
