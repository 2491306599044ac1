"""A policy made by hand, so that every answer can be worked out on paper."""

from howsure.decide import CalibrationReport, Certificate, Limits, Policy, Reference
from howsure.decide.evidence import FEATURES, PLAIN
from howsure.decide.probability import AnswerProbabilities
from howsure.match import Matcher
from howsure.numerics.link import Link
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
    identities=100,
    data="00112233445566ff",
    made="2024-01-31",
)
HONESTY = CalibrationReport(
    "the best match is right", "logistic", 0.02, 0.1, 0.7, 400, ((0.2, 0.25, 100), (0.9, 0.85, 300))
)
CERTAIN = Logistic((0.0,) * (2 * PLAIN), 50.0)  # where the best match is not right, nothing is


def policy(*, unknown_at: float | None = 2.0, uncertainty: float | None = 0.5) -> Policy:
    """The log-odds of the pair decide alone: match from 1 up, unknown from -2 down."""
    return Policy(
        matcher=Matcher(scale=4.0, offset=2.0, base_rate=0.1),
        chances=AnswerProbabilities(Link(Logistic((1.0, *[0.0] * (FEATURES - 1)), 0.0)), CERTAIN),
        match_at=1.0,
        unknown_at=unknown_at,
        limits=Limits(gap=1.0, margin=0.7, uncertainty=uncertainty, gallery_uncertainty=0.3),
        reference=Reference((0.1, 0.2, 0.3), (0.5, 0.6, 0.1)),
        certificate=CERTIFICATE,
        honesty={"right": HONESTY},
        model="0123456789abcdef",
    )
