import torch

from cases import point


def test_a_point_is_sure() -> None:
    e = point()
    assert not e.variance.any()
    assert not e.uncertainty.any()
    assert torch.equal(e.sample(3), torch.stack([e.location] * 3))
