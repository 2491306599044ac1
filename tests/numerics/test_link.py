"""Which link is chosen, where the truth is known."""

import numpy as np
import pytest
from scipy.special import expit

from howsure.numerics.link import FOLDS, crossed, fit_link, folds_of

GROUPS = [f"g{row % 40}" for row in range(2_000)]
FOLD = folds_of(GROUPS)


def world(truth: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    score = rng.uniform(-3, 3, 2_000)
    share = {"logistic": expit(1.5 * score), "stairs": np.where(score > 2, 0.95, np.where(score > -2, 0.5, 0.05))}[
        truth
    ]
    return score[:, None], rng.random(2_000) < share, share


@pytest.mark.parametrize(("truth", "isotonic"), [("logistic", False), ("stairs", True)])
def test_the_likelier_link_is_chosen_and_is_near_the_truth(truth: str, isotonic: bool) -> None:
    features, outcome, share = world(truth)
    link = fit_link(features, outcome, FOLD)
    assert (link.steps is not None) == isotonic
    assert np.abs(link.probability(features) - share).mean() < 0.04
    line = np.abs(link.logistic.probability(features) - share).mean()
    assert (line > 0.08) == isotonic


def test_the_score_is_never_flat() -> None:
    features, outcome, _ = world("stairs")
    link = fit_link(features, outcome, FOLD)
    rising = np.linspace(-5, 5, 50)[:, None]
    assert (np.diff(link.score(rising)) > 0).all()
    assert (np.diff(link.probability(rising)) == 0).any()


def test_one_fold_or_one_outcome_leaves_the_line() -> None:
    features, outcome, _ = world("stairs")
    assert fit_link(features, outcome, np.zeros(2_000, int)).steps is None
    only = np.where(outcome, 0, 1)  # each fold holds one outcome
    assert fit_link(features, outcome, only).steps is None


def test_folds_keep_groups_together_and_are_even() -> None:
    folds = folds_of(GROUPS)
    assert all(len({*folds[row::40]}) == 1 for row in range(40))
    assert np.bincount(folds).tolist() == [400] * FOLDS
    assert len({*folds_of([None] * 20)}) == FOLDS


def test_crossed_links_have_not_seen_the_fold() -> None:
    """One fold has the opposite outcome: a link fitted without it must be wrong about it."""
    features, outcome, _ = world("logistic")
    odd = FOLD == 0
    outcome = np.where(odd, ~outcome, outcome)
    rows = np.arange(2_000)
    found = crossed(features, outcome, FOLD, fit=rows, test=rows, steps=False)
    off = np.abs(found - outcome)
    assert off[odd].mean() > 0.6 > 0.4 > off[~odd].mean()


def test_crossed_where_no_link_can_be_fitted() -> None:
    features, outcome, _ = world("logistic")
    rows = np.arange(2_000)
    assert np.isnan(crossed(features, outcome, np.zeros(2_000, int), fit=rows, test=rows, steps=True)).all()
