"""A search by mean is a full comparison of point estimates, whatever the variances and the history of the gallery."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import CASES
from howsure import Draws, Gaussian, Matcher, Point, VonMisesFisher, cat
from howsure.embeddings import point_estimates
from howsure.errors import InputError
from howsure.index import LocalIndex
from howsure.index.layout import Layout
from howsure.index.local import engine as engine_module
from howsure.index.local import ivf, ivf_tuning
from howsure.index.local.engine import EmbeddedEngine
from howsure.index.ranking.exact import rank_by_mean
from howsure.index.ranking.keys import item_keys
from howsure.neighbours import neighbours
from howsure.prior import Prior


def many(case, count, *, seed):
    """The items of a case, again and again, turned about the origin at random."""
    generator = torch.Generator().manual_seed(seed)
    turns = [torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64)).Q for _ in range(count)]
    return cat([CASES[case]().rotated(turn) for turn in turns])[:count]


def check_search(index, model, query, k):
    """Compare with brute force; model is {id: embedding of one item} in the order of insertion."""
    matches = index.search(query, k, by="mean")
    gallery = cat(list(model.values())).to(dtype=torch.float64)
    near = neighbours(point_estimates(query), point_estimates(gallery), depth=len(model))
    k = min(k, len(model))
    assert matches.exact
    np.testing.assert_allclose(matches.distances, near.distances[:, :k], rtol=1e-9, atol=1e-6)
    names = {name: position for position, name in enumerate(model)}
    for row, found in enumerate(matches.ids):
        positions = np.array([names[name] for name in found])
        assert len(set(found)) == k
        # Where brute force rounds differently, two items at one distance may swap; nothing else may.
        full = near.distances[row, np.argsort(near.positions[row])]
        np.testing.assert_allclose(full[positions], matches.distances[row], rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(matches.uncertainty[row], gallery[positions].uncertainty, rtol=1e-9, atol=1e-12)
    return matches


@pytest.mark.parametrize("case", CASES)
def test_search_is_brute_force_in_tail_and_snapshot_and_after_removal(case, path):
    old, new = many(case, 400, seed=1), many(case, 150, seed=2)
    with LocalIndex.create(path) as index:
        model = {}

        def check():
            for queries in (1, 3, 20):  # each scanned on its own, or as one product
                check_search(index, model, many(case, queries, seed=queries), 7)
            check_search(index, model, many(case, 2, seed=9), len(model) + 1)

        def add(name, items):
            names = [f"{name} {n}" for n in range(len(items))]
            index.add(names, items)
            model.update({each: items[n] for n, each in enumerate(names)})
            check()

        def remove(share):
            gone = list(model)[::share]
            index.remove(gone)
            for name in gone:
                del model[name]
            check()

        add("old", old)
        index.compact()
        check()
        remove(3)
        add("new", new)
        remove(2)
        add("newer", new[:30])
    with LocalIndex.open(path) as index:
        check()


@pytest.mark.parametrize("large", [1e3, 1e6])
def test_few_candidates_prove_it_where_variances_differ_widely(path, large):
    generator = torch.Generator().manual_seed(0)
    scale = 10 ** (4 * torch.rand(3000, 1, generator=generator) - 3)
    scale[::7], scale[5] = 0, large
    items = Gaussian(torch.randn(3000, 16, generator=generator), scale)
    model = {f"{n}": items[n] for n in range(3000)}
    with LocalIndex.create(path) as index:
        index.add(list(model), items)
        index.compact()
        for queries in (1, 30):
            query = Gaussian(torch.randn(queries, 16, generator=generator), torch.full((queries, 1), large))
            assert check_search(index, model, query, 10).candidates == 26


@pytest.mark.parametrize("family", ["gaussian, per dimension", "von Mises-Fisher"])
def test_removed_items_near_the_query_cost_nothing(path, family):
    items = many(family, 600, seed=1)
    near = neighbours(point_estimates(items[:1]), point_estimates(items), depth=600).positions[0].tolist()
    with LocalIndex.create(path) as index:
        index.add([f"{n}" for n in range(600)], items)
        index.compact()
        index.remove([f"{n}" for n in near[:200]])
        for gone in (200, 400):  # before and after they were read for a search
            index.remove([f"{n}" for n in near[200:gone]])
            matches = check_search(index, {f"{n}": items[n] for n in sorted(near[gone:])}, items[:1], 4)
            assert matches.ids.tolist() == [[f"{n}" for n in near[gone : gone + 4]]]
            assert matches.candidates == 20


def test_an_ivf_plays_no_part(path, monkeypatch):
    for module in (ivf, ivf_tuning, engine_module):
        monkeypatch.setattr(module, "FROM", 1000)
    items = many("gaussian, one scale", 1500, seed=1)
    model = {f"{n}": items[n] for n in range(1500)}
    with LocalIndex.create(path) as index:
        index.set_prior(Prior(torch.zeros(3), torch.ones(1)))
        index.add(list(model), items)
        index.compact()
        assert (path / ivf.MANIFEST).exists()
        check_search(index, model, items[:9], 5)


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(20, 120),
    dim=st.integers(1, 5),
    offset=st.sampled_from([0, 1 << 12, 1 << 26]),
    scales=st.lists(st.sampled_from([0.0, 1e-3, 1.0, 1e3]), min_size=1, max_size=5),
    queries=st.sampled_from([1, 8]),
    k=st.integers(1, 8),
    removed=st.integers(0, 10),
    seed=st.integers(0, 1000),
)
def test_the_proof_holds_for_any_variances(count, dim, offset, scales, queries, k, removed, seed):
    # On a lattice float64 is exact, so that ties are ties; far from the origin float32 cannot tell its points apart.
    rng = np.random.default_rng(seed)
    lattice = rng.integers(-4, 5, (count + queries, dim)) + offset
    scale = rng.permutation(np.resize(scales, count * dim)).reshape(count, dim)
    items = Gaussian(torch.from_numpy(lattice[:count].astype(float)), torch.from_numpy(scale))
    query = Point(torch.from_numpy(lattice[count:].astype(float)))
    layout, numbers = Layout.from_embedding(items), np.arange(count)
    engine = EmbeddedEngine(Path(), "", layout)
    engine.add(numbers[: count // 2], item_keys(items[: count // 2]), layout.pack(items[: count // 2]))
    rank_by_mean(query, k, engine=engine, layout=layout)  # what is read here must follow what comes and goes
    gone = rng.choice(count, removed, replace=False)
    engine.add(numbers[count // 2 :], item_keys(items[count // 2 :]), layout.pack(items[count // 2 :]))
    engine.remove(gone)
    ranking = rank_by_mean(query, k, engine=engine, layout=layout)
    squared = np.square(lattice[count:, None] - lattice[:count]).sum(-1).astype(float)
    squared[:, gone] = np.inf
    order = np.argsort(squared, 1, kind="stable")[:, :k]
    assert ranking.exact
    assert ranking.numbers.tolist() == order.tolist()
    np.testing.assert_array_equal(ranking.distances, np.sqrt(np.take_along_axis(squared, order, 1)))


def test_ties_come_in_order_of_insertion_and_a_replaced_item_is_new(path):
    with LocalIndex.create(path) as index:
        index.add(list("dcba"), Gaussian(torch.zeros(4, 3), torch.tensor([[3.0], [2.0], [1.0], [0.0]])))
        index.add(["c"], Gaussian(torch.zeros(1, 3), torch.zeros(1, 1)))
        query = Gaussian(torch.ones(2, 3), torch.ones(2, 1))
        assert index.search(query, 9, by="mean").ids.tolist() == [list("dbac")] * 2
        assert index.search(query, 9).ids.tolist() == [list("acbd")] * 2


def test_uncertainty_moves_nothing_and_a_matcher_hears_the_distance_alone(path):
    matcher = Matcher(scale=1.0, offset=2.0, base_rate=0.5)
    with LocalIndex.create(path) as index:
        index.add(["sure", "unsure"], Gaussian(torch.tensor([[2.0], [1.0]]), torch.tensor([[0.1], [3.0]])))
        query = Gaussian(torch.zeros(1, 1), torch.tensor([[5.0]]))
        matches = index.search(query, 2, by="mean", matcher=matcher)
        assert matches.ids.tolist() == [["unsure", "sure"]]
        assert matches.distances.tolist() == [[1.0, 2.0]]
        np.testing.assert_allclose(matches.uncertainty, [[9.0, 0.01]], rtol=1e-6)
        np.testing.assert_allclose(matches.probabilities, 1 / (1 + np.exp(matches.distances - 2)))
        assert index.search(query, 2).ids.tolist() == [["sure", "unsure"]]


def test_on_the_sphere_directions_are_compared(path):
    angles = np.array([0.1, 0.5])
    directions = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 1))
    with LocalIndex.create(path) as index:
        index.add(["vague", "clear"], VonMisesFisher(directions, torch.tensor([0.0, 100.0], dtype=torch.float64)))
        query = VonMisesFisher(torch.tensor([[1.0, 0.0]]), torch.tensor([3.0]))
        matches = index.search(query, 2, by="mean")
        assert matches.ids.tolist() == [["vague", "clear"]]
        np.testing.assert_allclose(matches.distances, 2 * np.sin(angles[None] / 2))
        assert index.search(query, 2).ids.tolist() == [["clear", "vague"]]


def test_one_side_may_have_a_single_draw(path, tmp_path):
    single = many("gaussian, per dimension", 60, seed=1)
    draws = Draws.stack([many("von Mises-Fisher", 60, seed=seed) for seed in range(3)])
    with LocalIndex.create(path) as one, LocalIndex.create(tmp_path / "draws") as three:
        one.add([f"{n}" for n in range(60)], single)
        three.add([f"{n}" for n in range(60)], draws)
        check_search(one, {f"{n}": single[n] for n in range(60)}, draws[:5], 3)
        check_search(three, {f"{n}": draws[n] for n in range(60)}, single[:5], 3)
        with pytest.raises(InputError, match="draws of the query: expected 3"):
            three.search(Draws.stack([single[:2], single[:2]]), 1, by="mean")


def test_small_requests_and_senseless_ones(path):
    items = many("von Mises-Fisher", 3, seed=0)
    with LocalIndex.create(path) as index:
        assert index.search(items, 3, by="mean").ids.shape == (3, 0)
        index.add(["a", "b", "c"], items)
        assert index.search(items[:0], 3, by="mean").ids.shape == (0, 3)
        with pytest.raises(InputError, match='approximate: expected None or False by mean, got True; search by="like'):
            index.search(items, 3, by="mean", approximate=True)
        assert index.search(items, 3, by="mean", approximate=False).exact
        with pytest.raises(InputError, match="by: expected distance or likelihood or mean, got 'means'"):
            index.search(items, 3, by="means")
