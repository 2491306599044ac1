"""The door: what no metric can judge is refused with a message that says why."""

import re
from types import ModuleType

import numpy as np
import pytest
import torch

from howsure import metrics
from howsure.errors import InputError

FLAGS, SCORES = [True, False, True, False], [0.9, 0.1, 0.6, 0.4]
# every function of (flags, scores) or (scores, flags): name -> call
PAIRED = {
    "auroc": lambda flags, scores: metrics.auroc(flags, scores),
    "average_precision": lambda flags, scores: metrics.average_precision(flags, scores).value,
    "auprc_trapezoid": lambda flags, scores: metrics.auprc_trapezoid(flags, scores).value,
    "fpr_at_tpr": lambda flags, scores: metrics.fpr_at_tpr(flags, scores),
    "verification_ap": lambda flags, scores: metrics.verification_ap(flags, scores).value,
    "roc_curve": lambda flags, scores: metrics.roc_curve(flags, scores).tar[-1],
    "tar_at_far": lambda flags, scores: metrics.tar_at_far(flags, scores, 0.1),
    "equal_error_rate": lambda flags, scores: metrics.equal_error_rate(flags, scores),
    "risk_coverage": lambda flags, scores: metrics.risk_coverage(scores, flags).risk[-1],
    "aurc": lambda flags, scores: metrics.aurc(scores, flags),
    "e_aurc": lambda flags, scores: metrics.e_aurc(scores, flags),
    "accuracy_at_coverage": lambda flags, scores: metrics.accuracy_at_coverage(scores, flags, 0.5),
    "ece": lambda flags, scores: metrics.ece(scores, flags),
    "reliability": lambda flags, scores: metrics.reliability(scores, flags).count.sum(),
    "brier": lambda flags, scores: metrics.brier(scores, flags),
    "nll": lambda flags, scores: metrics.nll(scores, flags),
}
TWO_CLASSES = [*PAIRED][:8]
PROBABILITIES = ["ece", "reliability", "brier", "nll"]
REAL_LOSSES = ["risk_coverage", "aurc", "e_aurc"]  # these take any loss where the others take flags
every = pytest.mark.parametrize("name", PAIRED)


@every
def test_lists_arrays_and_tensors_give_the_same_number(name):
    value = PAIRED[name](FLAGS, SCORES)
    assert np.isfinite(value)
    assert PAIRED[name](np.array(FLAGS), np.array(SCORES)) == value
    assert PAIRED[name](torch.tensor(FLAGS), torch.tensor(SCORES, dtype=torch.float64)) == value
    assert PAIRED[name]([1, 0, 1, 0], SCORES) == value


@every
def test_empty_input_is_refused(name):
    with pytest.raises(InputError, match="at least one value"):
        PAIRED[name]([], [])


@every
def test_nan_is_refused(name):
    with pytest.raises(InputError, match="no NaN"):
        PAIRED[name](FLAGS, [0.9, np.nan, 0.6, 0.4])


@every
def test_different_lengths_are_refused(name):
    with pytest.raises(InputError, match="one entry per item"):
        PAIRED[name](FLAGS, [*SCORES, 0.5])


@every
def test_a_matrix_is_refused(name):
    with pytest.raises(InputError, match="1 axes"):
        PAIRED[name](FLAGS, [SCORES])


@every
def test_text_is_refused(name):
    with pytest.raises(InputError, match="numbers"):
        PAIRED[name](FLAGS, ["a", "b", "c", "d"])


@pytest.mark.parametrize("name", sorted(set(PAIRED) - set(REAL_LOSSES)))
def test_flags_are_true_or_false(name):
    with pytest.raises(InputError, match=re.escape("expected booleans, got the value 2")):
        PAIRED[name]([0, 1, 2, 0], SCORES)


@pytest.mark.parametrize("name", TWO_CLASSES)
@pytest.mark.parametrize(("only", "message"), [(True, "only true"), (False, "only false")])
def test_one_class_is_undefined(name, only, message):
    with pytest.raises(InputError, match=f"{message}.*undefined with one class"):
        PAIRED[name]([only] * 4, SCORES)


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("outside", [-0.01, 1.01, np.inf])
def test_probabilities_lie_in_the_unit_interval(name, outside):
    with pytest.raises(InputError, match=re.escape("in [0, 1]")):
        PAIRED[name](FLAGS, [0.9, 0.1, 0.6, outside])


def test_a_tensor_with_gradient_is_refused_with_advice():
    with pytest.raises(InputError, match="detach"):
        metrics.auroc(FLAGS, torch.tensor(SCORES, requires_grad=True))


def test_ragged_lists_are_refused():
    with pytest.raises(InputError, match="relevant: expected something numpy"):
        metrics.recall_at_k([[True], [True, False]], k=1)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_fractions_are_checked(bad):
    for call in (metrics.tar_at_far, metrics.fpr_at_tpr, metrics.accuracy_at_coverage):
        data = (SCORES, FLAGS) if call is metrics.accuracy_at_coverage else (FLAGS, SCORES)
        with pytest.raises(InputError, match="a number in"):
            call(*data, bad)


def test_infinite_scores_only_have_to_rank():
    assert metrics.auroc([True, False, False], [np.inf, -np.inf, 1.0]) == 1.0
    assert metrics.equal_error_rate([True, False, False], [np.inf, -np.inf, np.inf]) == pytest.approx(1 / 3)


def test_the_door_lists_what_it_has():
    public = [name for name, value in vars(metrics).items() if name[0] != "_" and not isinstance(value, ModuleType)]
    assert metrics.__all__ == sorted(public)
