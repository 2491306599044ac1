"""Unknown detection where the answer is known."""

from dataclasses import replace

import pytest

from decide.policies import policy
from howsure.decide.evidence import FEATURES
from howsure.numerics.link import Link
from howsure.numerics.logistic import Logistic
from howsure.web.gallery_review import codes_of
from howsure.web.unknown_roc import unknown_roc


def go_on() -> None:
    return None


def test_unknown_items_far_from_all_others_are_all_noticed(clusters):
    embedding, labels = clusters
    labels = [str(row // 10) for row in range(100)]
    nearer = Logistic(tuple(float(name == "distance") for name in FEATURES), 0.0)
    made = replace(policy(), chances=replace(policy().chances, right=Link(nearer)))
    roc = unknown_roc(embedding, codes_of(labels)[0], made, go_on=go_on)
    assert roc.auroc == 1
    assert (roc.false_positive[0], roc.true_positive[0]) == (0, 0)
    assert (roc.false_positive[-1], roc.true_positive[-1]) == (1, 1)


@pytest.mark.parametrize("labels", [[None] * 100, ["one"] * 100, [str(row) for row in range(100)]])
def test_without_an_identity_to_hide_it_says_so(clusters, labels):
    reason = unknown_roc(clusters[0], codes_of(labels)[0], policy(), go_on=go_on)
    assert "two labels" in reason
