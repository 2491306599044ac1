"""What every family of embeddings must obey. Each law takes one embedding and raises AssertionError if it breaks it."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from howsure.compare import expected_squared_distance
from howsure.embeddings import Embedding, Point, cat, point_estimates, restore
from howsure.errors import InputError

SAMPLES = 8_000


def same(a: Embedding, b: Embedding) -> bool:
    """Equal family, dtype and bits."""
    ours, theirs = a.tensors(), b.tensors()
    return a.family == b.family and all(
        ours[name].dtype == theirs[name].dtype and torch.equal(ours[name], theirs[name]) for name in ours
    )


def _drawn(e: Embedding, n: int = SAMPLES, seed: int = 0) -> Tensor:
    return e.sample(n, torch.Generator().manual_seed(seed))


def _near(estimate: Tensor, truth: Tensor, samples: Tensor) -> bool:
    """Within five standard errors of the mean of `samples` over their first axis."""
    allowed = 5 * samples.std(0) / len(samples) ** 0.5 + 1e-12
    return bool(((estimate - truth).abs() <= allowed).all())


def shapes(e: Embedding) -> None:
    n, d = len(e), e.dim
    assert e.mean.shape == e.variance.shape == (n, d)
    assert e.uncertainty.shape == (n,)
    assert e.sample(0).shape == (0, n, d)
    assert e.sample(7).shape == (7, n, d)


def moments_of_samples(e: Embedding) -> None:
    drawn = _drawn(e)
    assert _near(drawn.mean(0), e.mean, drawn)
    squares = (drawn - e.mean).square()
    assert _near(squares.mean(0), e.variance, squares)


def sampling_repeats_with_its_generator(e: Embedding) -> None:
    assert torch.equal(_drawn(e, 8, seed=1), _drawn(e, 8, seed=1))


def samples_are_joint_draws(e: Embedding) -> None:
    """Within draw s all items are independent: sample i minus the mean of its own draw has no correlation left."""
    draws = e.by_draw()
    drawn = _drawn(e, SAMPLES - SAMPLES % len(draws))
    for s, draw in enumerate(draws):
        rest = drawn[s :: len(draws)] - draw.mean
        products = rest[:, :1] * rest[:, 1:]
        assert _near(rest.mean(0), torch.zeros_like(draw.mean), rest)
        assert _near(products.mean(0), torch.zeros_like(products[0]), products)


def draws_agree_with_the_whole(e: Embedding) -> None:
    draws = e.by_draw()
    means = torch.stack([draw.mean for draw in draws])
    total = torch.stack([draw.variance for draw in draws]).mean(0) + means.var(0, correction=0)
    assert torch.allclose(e.mean, means.mean(0))
    assert torch.allclose(e.variance, total)
    assert all(len(draw) == len(e) and draw.by_draw() == (draw,) for draw in draws)


def uncertainty_is_total_variance(e: Embedding) -> None:
    assert torch.equal(e.uncertainty, e.variance.sum(-1))
    assert (e.uncertainty >= 0).all()


def point_estimates_have_no_uncertainty(e: Embedding) -> None:
    bare = point_estimates(e)
    assert torch.allclose(e.point_estimate, bare.mean)
    assert len(bare.by_draw()) == len(e.by_draw())
    for point, draw in zip(bare.by_draw(), e.by_draw(), strict=True):
        assert (point.uncertainty == 0).all()
        assert torch.equal(point.mean, draw.point_estimate)
        # A mean of length 0 points nowhere; every other one points to the estimate.
        along = torch.nn.functional.cosine_similarity(draw.mean, draw.point_estimate, dim=-1, eps=0)
        assert torch.allclose(along.nan_to_num(1), torch.ones(len(e), dtype=e.dtype))


def confidence_is_a_share_that_falls_with_uncertainty(e: Embedding) -> None:
    """Of the families that have one."""
    if e.confidence is None:
        return
    assert ((e.confidence >= 0) & (e.confidence <= 1)).all()
    assert torch.equal(e.confidence.argsort(), (-e.uncertainty).argsort())


def rows(e: Embedding) -> None:
    n = len(e)
    order = np.arange(n)
    chosen: list[tuple[object, np.ndarray]] = [
        (1, order[[1]]),
        (-1, order[[-1]]),
        (np.int64(2), order[[2]]),
        (slice(1, 4), order[1:4]),
        (slice(None, None, -1), order[::-1]),
        (slice(3, 3), order[:0]),
        ([3, 0, 0], order[[3, 0, 0]]),
        ([-1, -2], order[[-1, -2]]),
        (range(2), order[:2]),
        (order % 2 == 0, order[::2]),
        ((order % 2 == 0).tolist(), order[::2]),
        (torch.from_numpy(order % 2 == 1), order[1::2]),
        (torch.tensor([4, 1]), order[[4, 1]]),
        (order[::-1], order[::-1]),
        (np.frombuffer(order.tobytes(), order.dtype), order),
        ([], order[:0]),
        (np.zeros(n, bool), order[:0]),
    ]
    for index, expected in chosen:
        part = e[index]  # type: ignore[index]
        assert part.family == e.family, index
        assert len(part) == len(expected), index
        for name, tensor in e.tensors().items():
            wanted = tensor[torch.from_numpy(expected.copy())]
            assert torch.equal(part.tensors()[name], wanted), index
        assert torch.equal(part.mean, e.mean[torch.from_numpy(expected.copy())]), index


def rows_out_of_range(e: Embedding) -> None:
    for index in (len(e), -len(e) - 1, [len(e)]):
        with pytest.raises(IndexError):
            e[index]


def iteration_ends(e: Embedding) -> None:
    assert same(cat(list(iter(e))), e)
    assert len(list(iter(e))) == len(e)


def cat_undoes_slicing(e: Embedding) -> None:
    assert same(cat([e[:2], e[2:2], e[2:]]), e)
    with pytest.raises(InputError, match="at least one"):
        cat([])


def cat_refuses_other_shapes(e: Embedding) -> None:
    with pytest.raises(InputError, match="one family and one shape"):
        cat([e, Point(torch.zeros(2, e.dim + 1, dtype=e.dtype))])


def storage_is_bit_exact(e: Embedding) -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        stored = e.to(dtype=dtype)
        again = restore(stored.family, stored.arrays())
        assert same(again, stored)
        assert again.dtype == dtype


def storage_takes_read_only_and_strided_arrays(e: Embedding) -> None:
    arrays = {}
    for name, array in e.arrays().items():
        arrays[name] = np.repeat(array, 2, axis=0)[::2]
        arrays[name].flags.writeable = False
    assert same(restore(e.family, arrays), e)


def storage_refuses_other_fields(e: Embedding) -> None:
    with pytest.raises(InputError) as caught:
        restore(e.family, e.arrays() | {"colour": np.zeros(3)})
    assert "colour" in caught.value.got
    with pytest.raises(InputError, match="none"):
        restore(e.family, {})


def moves(e: Embedding) -> None:
    single = e.to(dtype=torch.float32)
    assert single.dtype == single.mean.dtype == single.uncertainty.dtype == torch.float32
    assert single.sample(2).dtype == torch.float32
    assert torch.allclose(single.mean.double(), e.mean, atol=1e-6)
    assert same(e.to("cpu"), e)
    assert e.device == torch.device("cpu")
    elsewhere = e.to("meta")
    assert elsewhere.device == torch.device("meta")
    assert all(tensor.is_meta for tensor in elsewhere.tensors().values())
    assert same(single.to(dtype=torch.float64).to(dtype=torch.float32), single)


def gradients_flow_until_detached(e: Embedding) -> None:
    leaf = e.map(lambda tensor: tensor.clone().requires_grad_())
    assert leaf.mean.requires_grad
    assert not leaf.detach().mean.requires_grad
    assert same(leaf.detach(), e)


def empty_batches(e: Embedding) -> None:
    nothing = e[:0]
    assert len(nothing) == 0
    assert nothing.mean.shape == (0, e.dim)
    assert nothing.variance.shape == (0, e.dim)
    assert nothing.uncertainty.shape == (0,)
    assert nothing.sample(3).shape == (3, 0, e.dim)
    assert list(nothing) == []
    assert same(cat([nothing, e]), e)
    assert same(restore(nothing.family, nothing.arrays()), nothing)
    assert nothing.checked() is nothing
    assert expected_squared_distance(nothing, e).shape == (0, len(e))
    assert expected_squared_distance(e, nothing).shape == (len(e), 0)
    assert len(nothing.by_draw()) == len(e.by_draw())


def _broken(e: Embedding) -> Iterator[tuple[str, Callable[[Tensor], object]]]:
    yield "axes", lambda t: t.flatten()
    yield "axes", lambda t: t[None, None]
    yield "floating-point", lambda t: t.long()
    yield "floating-point", lambda t: t.numpy()
    yield "floating-point", lambda t: t.tolist()


def fields_are_checked(e: Embedding) -> None:
    for word, function in _broken(e):
        with pytest.raises(InputError) as caught:
            e.map(function)  # type: ignore[arg-type]
        assert word in caught.value.expected
        assert caught.value.got


def fields_agree(e: Embedding) -> None:
    """Needs two fields: one changed alone no longer fits the others."""
    first = next(iter(e.tensors()))
    if len(e.tensors()) == 1:
        return
    with pytest.raises(InputError, match="same items"):
        e.rebuild(e.tensors() | {first: e.tensors()[first][:-1]})
    with pytest.raises(InputError, match="one dtype"):
        e.rebuild(e.tensors() | {first: e.tensors()[first].half()})


def damage_is_found(e: Embedding) -> None:
    assert e.checked() is e
    for name in e.tensors():
        for poison in (torch.nan, torch.inf):
            hurt = {key: tensor.clone() for key, tensor in e.tensors().items()}
            hurt[name][3].fill_(poison)
            with pytest.raises(InputError, match="first item 3") as caught:
                e.rebuild(hurt).checked()
            assert name in caught.value.what


def embeddings_are_frozen(e: Embedding) -> None:
    with pytest.raises(AttributeError):
        e.location = torch.zeros(1, 1)  # type: ignore[attr-defined]


def sampled_distance_agrees(e: Embedding) -> None:
    """E|a - b|² over pairs of joint draws; the other embedding is the same one, reversed."""
    other = e[::-1]
    a, b = _drawn(e, seed=2), _drawn(other, seed=3)
    gaps = (a - b).square().sum(-1)
    assert _near(gaps.mean(0), expected_squared_distance(e, other, paired=True), gaps)


LAWS: dict[str, Callable[[Embedding], None]] = {
    law.__name__: law
    for law in (
        shapes,
        moments_of_samples,
        sampling_repeats_with_its_generator,
        samples_are_joint_draws,
        draws_agree_with_the_whole,
        uncertainty_is_total_variance,
        point_estimates_have_no_uncertainty,
        confidence_is_a_share_that_falls_with_uncertainty,
        rows,
        rows_out_of_range,
        iteration_ends,
        cat_undoes_slicing,
        cat_refuses_other_shapes,
        storage_is_bit_exact,
        storage_takes_read_only_and_strided_arrays,
        storage_refuses_other_fields,
        moves,
        gradients_flow_until_detached,
        empty_batches,
        fields_are_checked,
        fields_agree,
        damage_is_found,
        embeddings_are_frozen,
        sampled_distance_agrees,
    )
}
