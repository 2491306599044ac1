"""Uncertainty against performance: scipy, scikit-learn and counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, roc_auc_score

from howsure.errors import InputError
from howsure.metrics import aurc, crop_test, kendall_over_bins, kendall_over_bins_ap, r_auroc

seeds = st.integers(0, 10_000)


def answers(seed: int, n: int = 403, *, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Uncertainties without ties, and answers that fail more often where it is large."""
    rng = np.random.default_rng(seed)
    uncertainty = rng.permutation(n) / n
    return uncertainty, rng.random(n) > 0.5 * slope * uncertainty


@settings(deadline=None, max_examples=40)
@given(seeds, st.integers(2, 25))
def test_kendall_against_scipy_over_slices_of_the_sorted_items(seed, bins):
    uncertainty, correct = answers(seed, n=20 * bins)
    order = np.argsort(uncertainty)
    means = [chunk.mean() for chunk in np.split(correct[order], bins)]
    wanted = -kendalltau(np.arange(bins), means).statistic
    if np.isnan(wanted):
        with pytest.raises(InputError, match="differs between bins"):
            kendall_over_bins(uncertainty, correct, bins=bins)
    else:
        assert kendall_over_bins(uncertainty, correct, bins=bins) == pytest.approx(wanted)


@settings(deadline=None, max_examples=25)
@given(seeds)
def test_kendall_of_pairs_against_scipy_and_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    uncertainty, same = rng.permutation(600) / 600, rng.permutation(600) < 300
    similarity = same + rng.normal(size=600) * (0.5 + uncertainty)
    parts = np.split(np.argsort(uncertainty), 10)
    reached = [average_precision_score(same[part], similarity[part]) for part in parts]
    wanted = kendalltau(-np.arange(10), reached).statistic
    assert kendall_over_bins_ap(uncertainty, same, similarity, bins=10) == pytest.approx(wanted)


@pytest.mark.parametrize("n", [40, 41, 57, 403])
def test_bins_differ_by_one_item_at_most(n):
    from howsure.metrics.uncertainty import _members

    sizes = [len(rows) for rows in _members(np.random.default_rng(0).permutation(n).astype(float), 20)]
    assert (len(sizes), sum(sizes)) == (20, n)
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 0.7, 2.0]), st.booleans()), min_size=6, max_size=30),
    st.randoms(use_true_random=False),
)
def test_ties_share_a_bin_so_the_order_of_the_input_does_not_matter(rows, random):
    def tau(rows):
        uncertainty, correct = zip(*rows, strict=True)
        try:
            return kendall_over_bins(uncertainty, correct, bins=5)
        except InputError as error:
            return str(error)

    first = tau(rows)
    random.shuffle(rows)
    assert tau(rows) == first


def test_two_levels_make_two_bins_however_many_are_asked_for():
    uncertainty, correct = [1.0] * 30 + [2.0] * 30, [True] * 20 + [False] * 10 + [True] * 10 + [False] * 20
    assert kendall_over_bins(uncertainty, correct) == 1
    assert kendall_over_bins(np.negative(uncertainty), correct) == -1


@settings(deadline=None, max_examples=40)
@given(seeds)
def test_r_auroc_against_scikit_learn(seed):
    uncertainty, correct = answers(seed)
    uncertainty = np.round(uncertainty, 1)  # ties
    assert r_auroc(uncertainty, correct) == pytest.approx(roc_auc_score(correct, -uncertainty))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_crop_test_counts_pairs_with_half_for_ties(rows):
    full, crop = map(list, zip(*rows, strict=True))
    wanted = np.mean([(c > f) + 0.5 * (c == f) for f, c in rows])
    assert crop_test(full, crop) == pytest.approx(wanted)
    assert crop_test(crop, full) == pytest.approx(1 - wanted)


def test_direction():
    uncertainty, correct = answers(0, n=400, slope=2.0)
    assert kendall_over_bins(uncertainty, correct) > 0.5
    assert kendall_over_bins(-uncertainty, correct) == pytest.approx(-kendall_over_bins(uncertainty, correct))
    assert r_auroc(uncertainty, correct) > 0.7
    assert r_auroc(-uncertainty, correct) == pytest.approx(1 - r_auroc(uncertainty, correct))
    assert aurc(uncertainty, ~correct) < aurc(-uncertainty, ~correct)
    assert crop_test([1, 2], [2, 3]) == 1


def test_what_is_undefined_is_refused():
    correct = [True, False] * 20
    with pytest.raises(InputError, match="two bins or more, got 1 distinct value in 40 items"):
        kendall_over_bins([1.0] * 40, correct)
    with pytest.raises(InputError, match="got 1 in all 20 bins"):
        kendall_over_bins(range(40), [True] * 40)
    with pytest.raises(InputError, match="bins: expected 2 to 40"):
        kendall_over_bins(range(40), correct, bins=41)
    with pytest.raises(InputError, match="bins: expected 2 to 40"):
        kendall_over_bins(range(40), correct, bins=1)
    with pytest.raises(InputError, match="a bin of 2 with only same pairs; use fewer bins"):
        kendall_over_bins_ap(range(40), [True, True, False, False] * 10, range(40))
    with pytest.raises(InputError, match="finite"):
        kendall_over_bins([1, 2], [1, np.inf], bins=2)
    with pytest.raises(InputError, match="only true ones"):
        r_auroc([1, 2], [True, True])


def test_lengths_and_nan_are_checked():
    for call in (
        lambda a: r_auroc(a, [True, False, True]),
        lambda a: crop_test(a, [1, 2, 3]),
        lambda a: kendall_over_bins(a, [1, 2, 3], bins=2),
        lambda a: kendall_over_bins_ap(a, [True, False, True], [1, 2, 3], bins=2),
    ):
        with pytest.raises(InputError, match="one entry per item"):
            call([1.0, 2.0])
        with pytest.raises(InputError, match="no NaN"):
            call([1.0, 2.0, np.nan])
