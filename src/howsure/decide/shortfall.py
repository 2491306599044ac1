"""When nothing can be promised: what it would take, and what can be promised now."""

from __future__ import annotations

from typing import Any

import numpy as np

from howsure.decide.certify import FalseMatches, least_count, widest_threshold
from howsure.errors import CalibrationError

RATES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
TIMES = (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # as many queries
TRIALS = 20


def no_promise(
    uncertainty: np.ndarray,
    error: np.ndarray,
    grid: np.ndarray,
    *,
    max_error: float,
    confidence: float,
    false_matches: FalseMatches | None,
) -> CalibrationError:
    """The error that says so, for the queries that were to test a threshold."""
    how: dict[str, Any] = {"confidence": confidence, "false_matches": false_matches}
    passing = (
        rate for rate in RATES if rate > max_error and widest_threshold(uncertainty, error, grid, max_error=rate, **how)
    )
    least = least_count(max_error, confidence)
    surest = np.argsort(uncertainty, kind="stable")[: min(len(error), 2 * least)]
    fixes = [
        _too_few_unknowns(false_matches, confidence) or _more(uncertainty, error, grid, max_error=max_error, **how)
    ]
    if (now := next(passing, None)) is not None:
        fixes.append(f"or allow --max-error {now:g}, which these pictures do support")
    return CalibrationError(
        "no policy can promise this",
        expected=f"an error rate among matches of at most {max_error:g} with confidence {confidence:g}",
        got=f"{int(error[surest].sum())} errors among the surest {len(surest)} of {len(error)} test queries",
        fix=", ".join(fixes),
    )


def _too_few_unknowns(false_matches: FalseMatches | None, confidence: float) -> str:
    if false_matches is None:
        return ""
    have, need = int(false_matches.unknown.sum()), least_count(false_matches.at_most, (1 + confidence) / 2)
    if have >= need:
        return ""
    return f"hold out {need - have} more pictures of identities that the gallery lacks, for --max-false-match"


def _more(
    uncertainty: np.ndarray,
    error: np.ndarray,
    grid: np.ndarray,
    *,
    max_error: float,
    confidence: float,
    false_matches: FalseMatches | None,
) -> str:
    """How many queries like these would do, as a rule: drawn from them again and again."""
    rng = np.random.default_rng(0)
    unknown = np.zeros(len(error), bool) if false_matches is None else false_matches.unknown
    for times in TIMES:
        done = 0
        for _ in range(TRIALS):
            rows = rng.integers(0, len(error), round(times * len(error)))
            few = false_matches and FalseMatches(unknown[rows], false_matches.at_most)
            how: dict[str, Any] = {"max_error": max_error, "confidence": confidence, "false_matches": few}
            done += widest_threshold(uncertainty[rows], error[rows], grid, **how) is not None
        if done > 0.7 * TRIALS:
            tens = 10 if len(error) < 1_000 else 100
            more = round((times - 1) * len(error) / tens) * tens
            return f"hold out about {max(10, more)} more pictures of the same sort"
    return "more pictures of the same sort would not help: improve the gallery or the model"
