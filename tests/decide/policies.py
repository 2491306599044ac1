"""A policy made by hand, so that every answer can be worked out on paper."""

from howsure.decide import (
    CalibrationReport,
    Certificate,
    Choice,
    Limits,
    Policy,
    Promise,
    Reference,
    SetRule,
    UnknownRule,
)
from howsure.decide.conflict import Conflict
from howsure.decide.evidence import FEATURES, PLAIN
from howsure.decide.probability import AnswerProbabilities
from howsure.match import Matcher
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic

CERTIFICATE = Certificate(
    error=Promise(at_most=0.05, bound=0.04, confidence=0.95, events=4, n=280),
    false_unknown=Promise(at_most=0.01, bound=0.009, confidence=None, events=3, n=320),
    false_match=None,
    match_coverage=0.7,
    unknown_coverage=0.1,
    false_match_rate=0.1,
    false_non_match_rate=0.2,
    n=400,
    asked_identities=90,
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
BY_MARGIN = Logistic(tuple(float(name == "margin") for name in FEATURES), 0.0)


def policy(*, distance: float | None = 2.0, novelty: float | None = None, uncertainty: float | None = 0.5) -> Policy:
    """The margin decides alone, as log-odds: match from 1 up; unknown beyond a distance or a novelty."""
    return Policy(
        matcher=Matcher(scale=4.0, offset=2.0, base_rate=0.1),
        chances=AnswerProbabilities(Link(BY_MARGIN), CERTAIN),
        choice=Choice("margin", "distance", 0.1, {"margin": 0.1, "distance": 0.2}),
        match_at=1.0,
        match_within=50.0,
        conflict=Conflict(Link(BY_MARGIN), 0.9),
        unknown=None if distance is None else UnknownRule(distance, novelty, 3, 320),
        sets=SetRule((0.0, 0.0, 0.1, 0.5), 5, (-3.0, 0.0)),
        limits=Limits(gap=1.0, uncertainty=uncertainty, gallery_uncertainty=0.3, references=2),
        reference=Reference((0.1, 0.2, 0.3), (0.5, 0.6, 0.1)),
        certificate=CERTIFICATE,
        honesty={"right": HONESTY},
        model="0123456789abcdef",
    )
