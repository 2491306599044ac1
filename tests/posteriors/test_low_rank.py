import pytest
import torch

from howsure.errors import InputError
from howsure.posteriors.laplace.low_rank import LowRank
from posteriors.closeness import assert_close


def decaying(count: int, width: int, *, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, width, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    return noise * 0.9 ** torch.arange(width, dtype=torch.float64) @ turn


def test_few_rows_are_kept_exactly() -> None:
    rows = decaying(30, 50, seed=0)
    sketch = LowRank(50, rank=40)
    for block in rows.split(7):
        sketch.add(block)
    basis, values = sketch.leading()
    assert values.shape == (30,)
    assert_close((basis * values) @ basis.T, rows.T @ rows)
    assert_close(basis.T @ basis, torch.eye(30, dtype=torch.float64))


@pytest.mark.parametrize("block", [5, 64, 300])
def test_many_rows_keep_what_leads(block: int) -> None:
    rows = decaying(2000, 80, seed=1)
    sketch = LowRank(80, rank=20)
    for part in rows.split(block):
        sketch.add(part)
    basis, values = sketch.leading()
    exact = torch.linalg.eigvalsh(rows.T @ rows).flip(0)
    assert_close(values[:10], exact[:10], rtol=1e-3, atol=0)
    assert (values <= exact[:20] * (1 + 1e-9)).all()  # what is left out is never invented
    captured = (rows @ basis).square().sum() / rows.square().sum()
    assert captured > 0.999 * exact[:20].sum() / exact.sum()


def test_single_precision_is_enough_for_rows() -> None:
    rows = decaying(500, 80, seed=2)
    double, single = LowRank(80, rank=20), LowRank(80, rank=20)
    double.add(rows)
    single.add(rows.float())
    assert_close(single.leading()[1], double.leading()[1], rtol=1e-4, atol=0)


def test_rounding_does_not_gather_over_many_blocks() -> None:
    """What was kept is taken for orthogonal every time but the last."""
    rows = decaying(6000, 80, seed=3) + 5.0  # one direction is far longer than the others
    double, single = LowRank(80, rank=20), LowRank(80, rank=20)
    for part in rows.split(10):
        double.add(part)
        single.add(part.float())
    basis, values = single.leading()
    assert_close(basis.T @ basis, torch.eye(20, dtype=torch.float64), atol=1e-5, rtol=0)
    assert_close(values, double.leading()[1], rtol=1e-4, atol=0)
    exact = torch.linalg.eigvalsh(rows.T @ rows).flip(0)
    assert_close(values[:10], exact[:10], rtol=1e-3, atol=0)


@pytest.mark.parametrize("rank", [0, 81])
def test_impossible_ranks(rank: int) -> None:
    with pytest.raises(InputError, match="1 to 80"):
        LowRank(80, rank)
