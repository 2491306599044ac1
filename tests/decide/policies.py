"""A policy made by hand, so that every answer can be worked out on paper."""

from howsure.decide import Certificate, Limits, Policy
from howsure.match import Matcher
from howsure.numerics.logistic import Logistic

CERTIFICATE = Certificate(
    max_error=0.05,
    confidence=0.95,
    error_bound=0.04,
    coverage=0.8,
    match_coverage=0.7,
    unknown_coverage=0.1,
    n=400,
    unknown_rate=0.2,
    gallery=700,
    made="2024-01-31",
)


def policy(*, unknown_at: float | None = -2.0, uncertainty: float | None = 0.5) -> Policy:
    """The log-odds of the pair decide alone: match from 1 up, unknown from -2 down."""
    return Policy(
        matcher=Matcher(scale=4.0, offset=2.0, base_rate=0.1),
        confidence=Logistic((1.0, 0.0, 0.0, 0.0, 0.0), 0.0),
        match_at=1.0,
        unknown_at=unknown_at,
        limits=Limits(neighbour_distance=1.0, margin=0.7, uncertainty=uncertainty, gallery_uncertainty=0.3),
        certificate=CERTIFICATE,
        model="0123456789abcdef",
    )
