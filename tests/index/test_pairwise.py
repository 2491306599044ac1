"""Comparisons in numpy are those in torch, for every family."""

import numpy as np
import pytest
import torch

from cases import CASES
from howsure import Draws, Gaussian, Point, rms_distance
from howsure.embeddings import point_estimates
from howsure.errors import InputError
from howsure.index.layout import Layout
from howsure.index.ranking.pairwise import (
    PairMoments,
    distances,
    item_uncertainty,
    log_likelihood_ratios,
    point_distances,
)
from howsure.prior import Prior, log_likelihood_ratio

ONE, EACH = Prior(torch.zeros(6), torch.ones(1)), Prior(torch.linspace(-1, 1, 6), torch.linspace(0.5, 3, 6))


def double(embedding):
    return embedding.to(dtype=torch.float64)


@pytest.mark.parametrize("prior", [ONE, EACH], ids=["one variance", "per dimension"])
@pytest.mark.parametrize("scales", [1, 6])
def test_pairs_are_compared_as_torch_compares_them(make, prior, scales):
    gallery = double(make(9, seed=1))
    query = double(Gaussian(torch.randn(9, 6), torch.rand(9, scales) + 0.1))
    ours, theirs = PairMoments.from_draws(query.by_draw()), PairMoments.from_draws(gallery.by_draw())
    np.testing.assert_allclose(distances(ours, theirs), rms_distance(query, gallery, paired=True), rtol=1e-12)
    wanted = log_likelihood_ratio(query, gallery, prior, paired=True)
    np.testing.assert_allclose(log_likelihood_ratios(ours, theirs, prior), wanted, rtol=1e-10, atol=1e-10)
    first = ours[np.array([0])]
    np.testing.assert_allclose(distances(first, theirs), rms_distance(query[0], gallery)[0], rtol=1e-6)
    wanted = log_likelihood_ratio(query[0], gallery, prior)[0]
    np.testing.assert_allclose(log_likelihood_ratios(first, theirs, prior), wanted, rtol=1e-10, atol=1e-10)


def test_draws_on_either_side_meet_a_single_one():
    draws = double(Draws.stack([Gaussian(torch.randn(5, 6), torch.rand(5, 6) + 0.1) for _ in range(3)]))
    single = double(Gaussian(torch.randn(5, 6), torch.rand(5, 1) + 0.1))
    for query, gallery in ((draws, single), (single, draws), (draws, draws)):
        ours, theirs = PairMoments.from_draws(query.by_draw()), PairMoments.from_draws(gallery.by_draw())
        np.testing.assert_allclose(distances(ours, theirs), rms_distance(query, gallery, paired=True), rtol=1e-12)
        wanted = log_likelihood_ratio(query, gallery, EACH, paired=True)
        np.testing.assert_allclose(log_likelihood_ratios(ours, theirs, EACH), wanted, rtol=1e-10)


def test_records_have_the_moments_of_their_family(make):
    embedding = make(7, seed=3)
    layout = Layout.from_embedding(embedding)
    moments = PairMoments.from_records(layout.pack(embedding), layout)
    for number, draw in enumerate(double(embedding).by_draw()):
        np.testing.assert_array_equal(moments.means[number], draw.mean)
        variance = np.broadcast_to(moments.variances[number], draw.variance.shape)
        np.testing.assert_array_equal(variance, draw.variance)
    uncertainty = item_uncertainty(PairMoments.from_draws((double(Point(torch.zeros(1, 6))),)), moments)
    np.testing.assert_allclose(uncertainty, double(embedding).uncertainty, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_point_estimates_of_records_are_compared(case):
    embedding = CASES[case]()
    layout = Layout.from_embedding(embedding)
    query = point_estimates(embedding[::-1])
    records = PairMoments.from_records(layout.pack(embedding), layout)
    wanted = rms_distance(query, point_estimates(embedding), paired=True)
    np.testing.assert_allclose(point_distances(PairMoments.from_draws(query.by_draw()), records), wanted, rtol=1e-12)


def test_two_points_have_no_likelihood():
    points = PairMoments.from_draws((double(Point(torch.zeros(2, 6))),))
    with pytest.raises(InputError, match="expected embeddings with some variance, got two points"):
        log_likelihood_ratios(points, points, ONE)
