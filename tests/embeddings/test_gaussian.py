import pytest
import torch

from howsure.embeddings import Gaussian
from howsure.errors import InputError


def test_one_scale_counts_once_a_dimension() -> None:
    e = Gaussian(torch.zeros(2, 7), torch.full((2, 1), 3.0))
    assert e.variance.shape == (2, 7)
    assert e.uncertainty.tolist() == [63.0, 63.0]


def test_larger_scale_is_larger_uncertainty() -> None:
    e = Gaussian(torch.zeros(2, 3), torch.tensor([[0.1], [0.2]]))
    assert e.uncertainty[0] < e.uncertainty[1]


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (3, 3), (2,), (1, 3)])
def test_scale_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError) as caught:
        Gaussian(torch.zeros(2, 3), torch.ones(shape))
    assert caught.value.expected
    assert str(shape[0]) in caught.value.got


def test_negative_scale_is_found() -> None:
    with pytest.raises(InputError, match=r"got -0\.5"):
        Gaussian(torch.zeros(1, 2), torch.tensor([[1.0, -0.5]])).checked()
