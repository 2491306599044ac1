from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from decide.policies import policy
from howsure.decide import REASONS, Answer, Evidence, decide, verify_pair
from howsure.decide.probability import UnknownRange


def evidence(
    log_odds: float = 0.0,
    *,
    margin: float = 5.0,
    support: float = 5.0,
    uncertainty: float = 0.1,
    novelty: float = 0.5,
    gap: float = 0.5,
) -> Evidence:
    """One query; by default nothing is wrong with it, but its log-odds are between the thresholds."""
    return Evidence(
        *(np.array([value]) for value in (log_odds, margin, 1.0, support, 2.0, 5.0, 0.5, uncertainty, novelty, gap))
    )


@pytest.mark.parametrize(
    ("log_odds", "kind"),
    [(1.0, "match"), (3.0, "match"), (0.999, "not_sure"), (-1.999, "not_sure"), (-2.001, "unknown")],
)
def test_thresholds_belong_to_the_answer(log_odds: float, kind: str) -> None:
    (answer,) = decide(policy(), evidence(log_odds))
    assert answer.kind == kind
    assert answer.probability == pytest.approx(expit(log_odds))
    assert (answer.reason is None) == (kind == "match")


def test_without_a_rule_for_unknowns_there_are_none() -> None:
    (answer,) = decide(policy(unknown_at=None), evidence(-50.0))
    assert answer.kind == "not_sure"


def test_below_even_odds_the_likelier_answer_is_given() -> None:
    """Right and none at 4 : 5, and both would do."""
    low = replace(policy(unknown_at=-3.0), match_at=-3.0)
    for right, kind in ((np.log(5 / 4), "match"), (np.log(4 / 5), "unknown")):
        assert decide(low, evidence(right))[0].kind == kind


@pytest.mark.parametrize("beyond", [{"uncertainty": 0.31}, {"novelty": 0.91}], ids=str)
def test_what_no_unknown_was_like_is_not_called_unknown(beyond: dict[str, float]) -> None:
    before = policy()
    near = replace(before, chances=replace(before.chances, reach=UnknownRange(uncertainty=0.3, novelty=0.9)))
    assert decide(near, evidence(-50.0, uncertainty=0.3, novelty=0.9))[0].kind == "unknown"
    (answer,) = decide(near, evidence(-50.0, **beyond))
    assert answer.kind == "not_sure"
    assert answer.none == pytest.approx(1)  # what is told stays what it was
    assert decide(near, evidence(3.0, **beyond))[0].kind == "match"


REASONED = {
    "unfamiliar": evidence(gap=1.1, uncertainty=0.9, margin=0.1),
    "poor_image": evidence(uncertainty=0.9, margin=0.1),
    "conflict": evidence(margin=0.1),
    "no_close_match": evidence(),
}


def test_a_novel_picture_is_unfamiliar_wherever_it_lands() -> None:
    (answer,) = decide(policy(), evidence(novelty=0.96, uncertainty=0.9))
    assert answer.reason == "unfamiliar"


@pytest.mark.parametrize("reason", REASONED)
def test_the_first_reason_that_applies(reason: str) -> None:
    (answer,) = decide(policy(), REASONED[reason])
    assert answer == Answer("not_sure", reason, 0.5, pytest.approx(0.5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("references", "uncertainty", "reason"),
    [
        ([1], None, "thin_gallery"),
        ([2], None, "no_close_match"),
        ([5], 0.4, "thin_gallery"),
        ([5], 0.3, "no_close_match"),
        (None, 0.4, "thin_gallery"),
        (None, None, "no_close_match"),
    ],
)
def test_thin_gallery(references: list[int] | None, uncertainty: float | None, reason: str) -> None:
    (answer,) = decide(
        policy(),
        evidence(),
        references=references,
        match_uncertainty=None if uncertainty is None else np.array([uncertainty]),
    )
    assert answer.reason == reason


def test_an_embedding_that_tells_its_novelty_may_be_far_from_all_items() -> None:
    """It is the gallery that lacks it, not the model."""
    mine = policy()
    mine = replace(mine, limits=replace(mine.limits, gap=None))
    (answer,) = decide(mine, evidence(gap=1e9))
    assert answer.reason == "no_close_match"


def test_far_from_a_single_reference_is_a_thin_gallery() -> None:
    (one,), (two,) = (decide(policy(), evidence(gap=1.1), references=[count]) for count in (1, 2))
    assert (one.reason, two.reason) == ("thin_gallery", "unfamiliar")


def test_where_every_picture_is_equally_sure_none_is_called_poor() -> None:
    (answer,) = decide(policy(uncertainty=None), evidence(uncertainty=1e9))
    assert answer.reason == "no_close_match"


def test_one_answer_a_query_in_order() -> None:
    rest = [np.full(3, value) for value in (5.0, 1.0, 5.0, 2.0, 5.0, 0.5, 0.0, 0.0, 0.5)]
    many = Evidence(np.array([3.0, 0.0, -9.0]), *rest)
    assert [answer.kind for answer in decide(policy(), many)] == ["match", "not_sure", "unknown"]
    assert decide(policy(), many[np.zeros(3, bool)]) == []


@pytest.mark.parametrize(
    ("identities", "log_odds", "kind"),
    [
        (100, 1.0, "match"),  # as many as in calibration
        (200, 1.0, "not_sure"),
        (200, 1.0 + np.log(2) + 1e-9, "match"),
        (50, 1.0 - 1e-9, "not_sure"),  # likelier now, but that was not tested
        (50, 1.0, "match"),
        (200, -2.0 - 1e-9, "unknown"),
        (200, -2.0 + 1e-9, "not_sure"),
        (50, -2.0, "not_sure"),
        (50, -2.0 - np.log(2) - 1e-9, "unknown"),
    ],
)
def test_another_number_of_identities_only_takes_answers_away(identities: int, log_odds: float, kind: str) -> None:
    (answer,) = decide(policy(), evidence(log_odds), identities=identities)
    assert answer.kind == kind
    assert answer.probability == pytest.approx(expit(log_odds - np.log(identities / 100)))
    assert answer.none == pytest.approx(1 - answer.probability)


def test_every_reason_has_words() -> None:
    assert {*REASONED, "thin_gallery", "not_calibrated"} == set(REASONS)


@pytest.mark.parametrize(("probability", "kind"), [(0.97, "match"), (0.5, "not_sure"), (0.03, "unknown")])
def test_a_pair_is_answered_where_the_error_is_tolerable(probability: float, kind: str) -> None:
    assert verify_pair(probability, policy()).kind == kind
    assert verify_pair(probability, None) == Answer("not_sure", "not_calibrated", probability)
