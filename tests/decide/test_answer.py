from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import expit, logit

from decide.policies import policy
from howsure.data.measures import MEASURES
from howsure.data.quality import quality_from
from howsure.decide import REASONS, Answer, Beside, Evidence, decide, verify_pair


def evidence(
    margin: float = 0.8,
    *,
    distance: float = 1.0,
    uncertainty: float = 0.1,
    novelty: float = 0.5,
    gap: float = 0.5,
) -> Evidence:
    """One query; by default nothing is wrong with it, but its log-odds, which are the margin, are too small."""
    others = dict.fromkeys((field.name for field in fields(Evidence)), 1.0)
    own = {"margin": margin, "remoteness": distance, "uncertainty": uncertainty, "novelty": novelty, "gap": gap}
    return Evidence(**{name: np.array([value]) for name, value in (others | own).items()})


def few(references: int) -> Beside:
    return Beside(references=np.array([references]))


@pytest.mark.parametrize(("margin", "kind"), [(1.0, "match"), (3.0, "match"), (0.999, "not_sure"), (-9.0, "not_sure")])
def test_a_threshold_belongs_to_the_answer(margin: float, kind: str) -> None:
    (answer,) = decide(policy(), evidence(margin))
    assert answer.kind == kind
    assert answer.probability == pytest.approx(expit(margin))
    assert answer.needed == pytest.approx(expit(1.0))
    assert (answer.reason is None) == (kind == "match")


@pytest.mark.parametrize(
    ("far", "kind"),
    [
        ({"distance": 2.0}, "not_sure"),
        ({"distance": 2.001}, "unknown"),
        ({"novelty": 0.99}, "not_sure"),
        ({"novelty": 0.991}, "unknown"),
    ],
    ids=str,
)
def test_what_is_farther_than_known_queries_is_unknown(far: dict[str, float], kind: str) -> None:
    mine = policy(novelty=0.99)
    assert decide(mine, evidence(**far))[0].kind == kind
    assert decide(mine, evidence(3.0, **far))[0].kind == "match"  # which was proved


def test_what_is_too_remote_gets_no_match() -> None:
    assert decide(policy(), evidence(3.0, distance=49.9))[0].kind == "match"
    assert decide(policy(), evidence(3.0, distance=50.0))[0].kind == "unknown"
    assert decide(policy(distance=None), evidence(3.0, distance=50.0))[0].kind == "not_sure"


def test_a_poor_picture_is_not_called_unknown_where_it_can_be_told() -> None:
    """Novelty tells it from something new; without it, both are far and uncertain."""
    far, poor, blind = {"distance": 2.5}, {"uncertainty": 0.9}, policy()
    telling = replace(blind, limits=replace(blind.limits, gap=None))
    assert decide(telling, evidence(**far, **poor))[0].reason == "poor_image"
    assert decide(telling, evidence(**far, **poor, novelty=0.99))[0].kind == "unknown"
    assert decide(telling, evidence(**far))[0].kind == "unknown"
    assert decide(blind, evidence(**far, **poor))[0].kind == "unknown"


def test_only_a_clearly_poor_picture_is_not_called_unknown() -> None:
    rng = np.random.default_rng(0)
    typical, held = rng.normal(size=(2, 300, len(MEASURES)))
    quality = quality_from(typical, held, held + 9, side=64)
    far, mine = quality.typical.distance(held), replace(policy(), quality=quality)
    fine, poor, clear = (held[np.argsort(far)[[150, 290, 299]]] + [[0], [0], [9]])[:, None]
    assert quality.poor(poor).all()
    assert not quality.clearly_poor(poor).any()
    answers = [decide(mine, evidence(distance=2.5), Beside(measures=one))[0] for one in (fine, poor, clear)]
    assert [one.kind for one in answers] == ["unknown", "unknown", "not_sure"]


def test_fewer_references_than_calibration_met_are_a_thin_gallery() -> None:
    far = evidence(distance=2.5)
    (one,), (two,) = (decide(policy(), far, few(count)) for count in (1, 2))
    assert (one.kind, one.reason) == ("not_sure", "thin_gallery")
    assert two.kind == "unknown"


def test_without_a_rule_for_unknowns_there_are_none() -> None:
    (answer,) = decide(policy(distance=None), evidence(-50.0, distance=1e9))
    assert answer.kind == "not_sure"


REASONED = {
    "unfamiliar": evidence(0.1, gap=1.1, uncertainty=0.9),
    "poor_image": evidence(0.1, uncertainty=0.9),
    "conflict": evidence(0.1),
    "unlikely": evidence(),
}
TORN = Beside(either=evidence(logit(0.9) + 1e-9))


def test_a_novel_picture_is_unfamiliar_wherever_it_lands() -> None:
    (answer,) = decide(policy(), evidence(novelty=0.96, uncertainty=0.9))
    assert answer.reason == "unfamiliar"


@pytest.mark.parametrize("reason", REASONED)
def test_the_first_reason_that_applies(reason: str) -> None:
    (answer,) = decide(policy(), REASONED[reason], None if reason == "unlikely" else TORN)
    assert (answer.kind, answer.reason) == ("not_sure", reason)


def test_a_conflict_is_between_two_of_which_it_probably_is_one() -> None:
    (torn,) = decide(policy(), evidence(0.0), TORN)
    assert (torn.reason, torn.either) == ("conflict", pytest.approx(0.9))
    assert torn.why == "it is one of two identities with a probability of 90%, the likelier of them has 50%"
    (ahead,) = decide(policy(), evidence(logit(0.61)), TORN)  # more than two thirds of both
    assert (ahead.reason, ahead.either) == ("unlikely", None)
    (unsure,) = decide(policy(), evidence(0.0), Beside(either=evidence(2.1)))  # 89 %, and it takes 90
    assert (unsure.reason, unsure.either) == ("unlikely", None)
    (match,) = decide(policy(), evidence(2.0), TORN)
    assert (match.reason, match.either) == (None, None)


def test_the_weakest_reason_names_the_numbers_that_decided() -> None:
    (answer,) = decide(policy(), evidence(0.0))
    assert answer.why == "the best match is right with a probability of 50%, an answer needs 73%"
    (close,) = decide(policy(), evidence(0.999))
    assert close.why == "the best match is right with a probability of 73.09%, an answer needs 73.11%"


@pytest.mark.parametrize(
    ("references", "scarcest", "uncertainty", "reason"),
    [
        ([1], [1], None, "thin_gallery"),
        ([2], [1], None, "thin_gallery"),
        ([2], [2], None, "unlikely"),
        ([5], [5], 0.4, "thin_gallery"),
        ([5], [5], 0.3, "unlikely"),
        (None, None, 0.4, "thin_gallery"),
        (None, None, None, "unlikely"),
    ],
)
def test_thin_gallery(
    references: list[int] | None, scarcest: list[int] | None, uncertainty: float | None, reason: str
) -> None:
    arrays = (None if values is None else np.array(values) for values in (references, scarcest))
    (answer,) = decide(policy(), evidence(), Beside(*arrays, None if uncertainty is None else np.array([uncertainty])))
    assert answer.reason == reason


def test_an_embedding_that_tells_its_novelty_may_be_far_from_all_items() -> None:
    """It is the gallery that lacks it, not the model."""
    mine = policy()
    mine = replace(mine, limits=replace(mine.limits, gap=None))
    (answer,) = decide(mine, evidence(gap=1e9))
    assert answer.reason == "unlikely"


def test_far_from_a_single_reference_is_a_thin_gallery() -> None:
    (one,), (two,) = (decide(policy(), evidence(gap=1.1), few(count)) for count in (1, 2))
    assert (one.reason, two.reason) == ("thin_gallery", "unfamiliar")


def test_where_every_picture_is_equally_sure_none_is_called_poor() -> None:
    (answer,) = decide(policy(uncertainty=None), evidence(uncertainty=1e9))
    assert answer.reason == "unlikely"


def test_one_answer_a_query_in_order() -> None:
    ones = {field.name: np.ones(3) for field in fields(Evidence)}
    far = {"margin": np.array([3.0, 0.0, -9.0]), "remoteness": np.array([1.0, 1.0, 3.0])}
    many = Evidence(**ones | far)
    assert [answer.kind for answer in decide(policy(), many)] == ["match", "not_sure", "unknown"]
    assert decide(policy(), many[np.zeros(3, bool)]) == []


@pytest.mark.parametrize(
    ("identities", "margin", "kind"),
    [
        (100, 1.0, "match"),  # as many as in calibration
        (200, 1.0, "not_sure"),
        (200, 1.0 + np.log(2) + 1e-9, "match"),
        (50, 1.0 - 1e-9, "not_sure"),  # likelier now, but that was not tested
        (50, 1.0, "match"),
        (201, 9.0, "not_sure"),  # so many more that no correction helps
        (49, 9.0, "not_sure"),
    ],
)
def test_another_number_of_identities_only_takes_matches_away(identities: int, margin: float, kind: str) -> None:
    (answer,) = decide(policy(), evidence(margin), identities=identities)
    assert answer.kind == kind
    assert answer.probability == pytest.approx(expit(margin - np.log(identities / 100)))
    assert answer.none == pytest.approx(1 - answer.probability)


def test_a_gallery_of_quite_another_size_withdraws_the_promise() -> None:
    sure, far = evidence(9.0), evidence(distance=2.5)
    for identities, unknown in ((49, "not_sure"), (201, "unknown")):  # in a larger one, known queries are only nearer
        assert decide(policy(), sure, identities=identities)[0].reason == "gallery_changed"
        assert decide(policy(), far, identities=identities)[0].kind == unknown


def test_every_reason_has_words() -> None:
    assert {*REASONED, "thin_gallery", "no_close_match", "gallery_changed", "not_calibrated"} == set(REASONS)


@pytest.mark.parametrize(("probability", "kind"), [(0.97, "match"), (0.5, "not_sure"), (0.03, "unknown")])
def test_a_pair_is_answered_where_the_error_is_tolerable(probability: float, kind: str) -> None:
    assert verify_pair(probability, policy()).kind == kind
    assert verify_pair(probability, None) == Answer("not_sure", "not_calibrated", probability)
