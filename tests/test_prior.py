"""The Bayes factor of two pictures, against the joint density of both."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from cases import CASES, diagonal, isotropic
from howsure import Draws, Gaussian, Matcher, Point, VonMisesFisher
from howsure.errors import CalibrationError, InputError
from howsure.prior import Prior, log_likelihood_ratio

D = 3
PRIOR = Prior(torch.tensor([0.5, -1.0, 0.0]), torch.tensor([0.3, 1.0, 4.0]))
UNCERTAIN = {name: make for name, make in CASES.items() if "points" not in name and name != "point"}
FAMILIES = pytest.mark.parametrize("make", UNCERTAIN.values(), ids=UNCERTAIN.keys())


def joint_ratio(query, gallery, prior):
    """log p(q, m | same) - log p(q, m | different) of single embeddings, coordinate by coordinate."""
    between = prior.between.expand(query.dim)
    total = 0.0
    for d in range(query.dim):
        b, vq, vg = float(between[d]), float(query.variance[0, d]), float(gallery.variance[0, d])
        means, centre = [float(query.mean[0, d]), float(gallery.mean[0, d])], [float(prior.centre[d])] * 2
        same = multivariate_normal.logpdf(means, centre, [[b + vq, b], [b, b + vg]])
        total += same - multivariate_normal.logpdf(means, centre, [[b + vq, 0], [0, b + vg]])
    return total


@FAMILIES
@pytest.mark.parametrize("between", [PRIOR.between, torch.tensor([0.7])], ids=["per dimension", "one"])
def test_the_ratio_is_that_of_the_joint_densities(make, between):
    prior, query, gallery = Prior(PRIOR.centre, between), make()[[0, 3]], make()[[2, 1, 4]]
    ratios = log_likelihood_ratio(query, gallery, prior)
    assert ratios.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            pairs = zip(query[i].by_draw(), gallery[j].by_draw(), strict=True)
            each = [joint_ratio(a, b, prior) for a, b in pairs]
            assert float(ratios[i, j]) == pytest.approx(np.log(np.mean(np.exp(each))), rel=1e-6, abs=1e-6)


@FAMILIES
def test_symmetric_and_paired(make):
    a, b = make(), make()[::-1]
    table = log_likelihood_ratio(a, b, PRIOR)
    torch.testing.assert_close(table, log_likelihood_ratio(b, a, PRIOR).T)
    torch.testing.assert_close(table.diagonal(), log_likelihood_ratio(a, b, PRIOR, paired=True))


def test_near_is_evidence_for_far_is_evidence_against_and_uncertainty_is_none():
    prior, query = Prior(torch.zeros(2), torch.ones(1)), Gaussian(torch.ones(1, 2), torch.full((1, 1), 0.2))
    locations, scales = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0]]), torch.tensor([[0.2], [0.2], [1e3]])
    near, far, uncertain = log_likelihood_ratio(query, Gaussian(locations, scales), prior)[0]
    assert near > 1
    assert far < -1
    assert abs(uncertain) < 1e-4


def test_one_side_may_be_a_point_but_not_both():
    point = Point(isotropic().location)
    for query, gallery in ((point, diagonal()), (diagonal(), point)):
        assert log_likelihood_ratio(query, gallery, PRIOR).isfinite().all()
    with pytest.raises(InputError, match="expected embeddings with some variance"):
        log_likelihood_ratio(point, point, PRIOR)


def test_shrinking_leaves_the_sure_and_moves_the_unsure_to_the_centre():
    location = torch.tensor([[3.0, 3.0, 3.0]])
    sure, unsure = (PRIOR.shrink(Gaussian(location, torch.full((1, 1), scale))) for scale in (1e-6, 1e6))
    torch.testing.assert_close(sure.mean, location)
    torch.testing.assert_close(unsure.mean[0], PRIOR.centre.float())
    torch.testing.assert_close(unsure.variance[0], PRIOR.between.float())
    draws = PRIOR.shrink(Draws.stack([Point(location), Point(-location)]))
    torch.testing.assert_close(draws.by_draw()[1].mean, -location)


@pytest.mark.parametrize("per_dimension", [True, False])
def test_fitting_finds_the_prior_that_made_the_data(per_dimension):
    generator = torch.Generator().manual_seed(0)
    between = torch.tensor([0.5, 1.0, 4.0]) if per_dimension else torch.full((3,), 2.0)
    identities = torch.tensor([1.0, -2.0, 0.0]) + between.sqrt() * torch.randn(4000, 3, generator=generator)
    labels = torch.arange(4000).repeat_interleave(torch.tensor([1, 2, 3, 6]).repeat(1000))
    scale = 0.3 + 2 * torch.rand(len(labels), 3, generator=generator)
    seen = Gaussian(identities[labels] + scale * torch.randn(scale.shape, generator=generator), scale)
    for given in (labels, labels.numpy(), [f"{label}" for label in labels.tolist()]):
        prior = Prior.fit(seen, given, per_dimension=per_dimension)
        np.testing.assert_allclose(prior.centre, [1, -2, 0], atol=0.15)
        np.testing.assert_allclose(prior.between, between[: len(prior.between)], rtol=0.15)
    assert Prior.fit(Draws.stack([seen, seen]), labels, per_dimension=per_dimension).version == prior.version


def test_a_picture_without_a_label_is_an_identity_of_its_own():
    embeddings = diagonal()
    assert Prior.fit(embeddings, [None] * 5).version == Prior.fit(embeddings, list("abcde")).version


def test_embeddings_that_claim_too_much_variance_leave_a_floor():
    prior = Prior.fit(Gaussian(torch.tensor([[0.0, 1.0], [0.0, 3.0]]), torch.full((2, 1), 9.0)), ["a", "b"])
    assert prior.between[1] == pytest.approx(0.02)
    assert 0 < prior.between[0] < prior.between[1]


def test_a_matcher_makes_it_a_probability():
    generator = torch.Generator().manual_seed(1)
    identities = torch.randn(300, 3, generator=generator).repeat_interleave(2, 0)
    seen = Gaussian(identities + 0.3 * torch.randn(600, 3, generator=generator), torch.full((600, 1), 0.3))
    prior = Prior.fit(seen, [n // 2 for n in range(600)])
    ratios = log_likelihood_ratio(seen[::2], seen[1::2], prior)
    matcher = Matcher.fit(-ratios.flatten(), torch.eye(300).flatten())
    assert matcher.scale == pytest.approx(1, abs=0.2)  # the model is right here, so its odds are


def test_storage_keeps_every_bit_and_the_version_follows_the_numbers():
    again = Prior.from_json(json.loads(json.dumps(PRIOR.to_json())))
    assert torch.equal(again.centre, PRIOR.centre)
    assert torch.equal(again.between, PRIOR.between)
    assert again.version == PRIOR.version
    assert Prior(PRIOR.centre, PRIOR.between + 1e-12).version != PRIOR.version
    assert Prior(PRIOR.centre, torch.ones(1)).version != Prior(PRIOR.centre, torch.ones(3)).version


@pytest.mark.parametrize(
    ("centre", "between", "message"),
    [
        (torch.zeros(2), torch.ones(3), r"expected a centre \(D,\) and variances between \(D,\) or \(1,\), got \(2,\)"),
        (torch.zeros(1, 2), torch.ones(2), "expected a centre"),
        (torch.zeros(0), torch.ones(1), "expected a centre"),
        (torch.zeros(2), torch.zeros(2), "expected a finite centre and positive variances"),
        (torch.tensor([0.0, torch.nan]), torch.ones(2), "expected a finite centre"),
        (torch.zeros(2), torch.tensor([1.0, torch.inf]), "expected a finite centre"),
    ],
)
def test_bad_priors_are_refused(centre, between, message):
    with pytest.raises(InputError, match=message):
        Prior(centre, between)


def test_bad_data_are_refused():
    embeddings = diagonal()
    with pytest.raises(InputError, match="labels: expected 5, one for each item, got 2"):
        Prior.fit(embeddings, ["a", "b"])
    with pytest.raises(CalibrationError, match="expected two identities or more, got 1"):
        Prior.fit(embeddings, ["a"] * 5)
    with pytest.raises(CalibrationError, match="expected different means"):
        Prior.fit(Point(torch.ones(2, 3)), ["a", "b"])
    with pytest.raises(InputError, match="NaN or infinity"):
        Prior.fit(Point(torch.tensor([[0.0], [torch.nan]])), ["a", "b"])
    with pytest.raises(InputError, match="dimension of the prior: expected 4, as the embeddings, got 3"):
        log_likelihood_ratio(Point(torch.zeros(1, 4)), Gaussian(torch.zeros(1, 4), torch.ones(1, 1)), PRIOR)


def test_embeddings_on_the_sphere_count_by_their_moments():
    sphere = VonMisesFisher(torch.eye(3), torch.tensor([5.0, 50.0, 500.0]))
    moments = Gaussian(sphere.mean, sphere.variance.sqrt())
    ratios = log_likelihood_ratio(sphere, sphere, PRIOR)
    torch.testing.assert_close(ratios, log_likelihood_ratio(moments, moments, PRIOR))
