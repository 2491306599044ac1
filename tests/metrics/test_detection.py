"""Detection against scikit-learn and against counting pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_auc_score

from howsure.metrics import auprc_trapezoid, auroc, average_precision, fpr_at_tpr

# few distinct scores, so that ties are the rule; both classes are always present
labelled = st.lists(st.tuples(st.booleans(), st.sampled_from([-1.5, 0.0, 0.25, 3.0])), min_size=0, max_size=25).map(
    lambda rows: tuple(np.array(column) for column in zip(*rows, (True, 0.25), (False, 0.0), strict=True))
)


@settings(deadline=None)
@given(labelled)
def test_auroc_counts_pairs_with_half_for_ties(rows):
    positive, score = rows
    wins = [float(a > b) + 0.5 * float(a == b) for a in score[positive] for b in score[~positive]]
    assert auroc(positive, score) == pytest.approx(np.mean(wins))
    assert auroc(positive, score) == pytest.approx(roc_auc_score(positive, score))


@settings(deadline=None)
@given(labelled)
def test_average_precision_against_scikit_learn(rows):
    positive, score = rows
    found = average_precision(positive, score)
    assert found.value == pytest.approx(average_precision_score(positive, score))
    assert found.base_rate == pytest.approx(positive.mean())


@settings(deadline=None)
@given(labelled)
def test_trapezoid_against_scikit_learn(rows):
    precision, recall, _ = precision_recall_curve(*rows)
    found = auprc_trapezoid(*rows)
    assert found.value == pytest.approx(auc(recall, precision))
    assert found.base_rate == pytest.approx(rows[0].mean())


@settings(deadline=None)
@given(labelled, st.sampled_from([0.05, 0.5, 0.8, 0.95, 1.0]))
def test_fpr_tries_every_threshold(rows, tpr):
    ood, uncertainty = rows
    for threshold in np.sort(np.unique(uncertainty)):
        if np.mean(uncertainty[~ood] <= threshold) >= tpr:
            break
    assert fpr_at_tpr(ood, uncertainty, tpr) == pytest.approx(np.mean(uncertainty[ood] <= threshold))


@settings(deadline=None)
@given(labelled, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(rows, random):
    order = list(range(len(rows[0])))
    random.shuffle(order)
    shuffled = (rows[0][order], rows[1][order])
    for metric in (auroc, average_precision, auprc_trapezoid, fpr_at_tpr):
        assert metric(*shuffled) == metric(*rows)


def test_agrees_with_scikit_learn_on_many_items():
    rng = np.random.default_rng(0)
    positive = rng.random(20_000) < 0.3
    score = (rng.normal(size=20_000) + positive).astype(np.float32)
    assert auroc(positive, score) == pytest.approx(roc_auc_score(positive, score), abs=1e-12)
    assert average_precision(positive, score).value == pytest.approx(
        average_precision_score(positive, score), abs=1e-12
    )


def test_step_and_trapezoid_are_different_numbers():
    rows = [True, False, True, False], [4, 3, 2, 1]
    assert average_precision(*rows).value == pytest.approx(5 / 6)
    assert auprc_trapezoid(*rows).value == pytest.approx(19 / 24)


def test_useless_scores_reach_the_base_rate_and_one_half():
    rows = [True] * 3 + [False], [1.0] * 4
    assert average_precision(*rows).value == average_precision(*rows).base_rate == 0.75
    assert auroc(*rows) == 0.5


def test_fpr95_orientation():
    # 20 known items at 1..20: 95 % of them lie at or below 19, and so does one OOD item of four
    uncertainty = [*range(1, 21), 19, 19.5, 30, 40]
    ood = [False] * 20 + [True] * 4
    assert fpr_at_tpr(ood, uncertainty) == 0.25


def test_fpr_takes_a_share_that_floating_point_cannot_multiply():
    # 0.55 * 100 is 55.000...01; the threshold is still the 55th familiar item
    uncertainty, ood = [*range(1, 101), 55, 56], [False] * 100 + [True] * 2
    assert fpr_at_tpr(ood, uncertainty, tpr=0.55) == 0.5


def test_direction():
    positive, better, worse = [True, True, False, False], [4, 3, 2, 1], [4, 2, 3, 1]
    assert auroc(positive, better) > auroc(positive, worse)
    assert average_precision(positive, better).value > average_precision(positive, worse).value
    assert auprc_trapezoid(positive, better).value > auprc_trapezoid(positive, worse).value
    assert fpr_at_tpr(positive, better) < fpr_at_tpr(positive, worse)
