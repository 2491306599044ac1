import pytest
import torch

from howsure.embeddings import Draws, Gaussian, NovelGaussian
from howsure.errors import InputError


def test_novelty_is_large_where_typicality_is_small() -> None:
    embedding = NovelGaussian(torch.zeros(2, 3), torch.ones(2, 1), torch.tensor([0.01, 0.75]))
    assert embedding.novelty.tolist() == pytest.approx([0.99, 0.25])


def test_it_is_no_part_of_the_uncertainty() -> None:
    plain = Gaussian(torch.zeros(2, 3), torch.ones(2, 1))
    embedding = NovelGaussian(plain.location, plain.scale, torch.tensor([0.0, 1.0]))
    assert torch.equal(embedding.uncertainty, plain.uncertainty)
    assert plain.novelty is None


def test_draws_say_the_mean_of_what_theirs_say() -> None:
    one, other = (NovelGaussian(torch.zeros(2, 3), torch.ones(2, 1), torch.tensor(p)) for p in ([0.0, 1.0], [0.5, 0.2]))
    assert Draws.stack([one, other]).novelty.tolist() == pytest.approx([0.75, 0.4])
    assert Draws.stack([Gaussian(one.location, one.scale)]).novelty is None


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_what_is_no_p_value_is_found(p: float) -> None:
    with pytest.raises(InputError, match=rf"got {p:g}"):
        NovelGaussian(torch.zeros(2, 3), torch.ones(2, 1), torch.tensor([0.5, p])).checked()


def test_every_item_has_its_own() -> None:
    with pytest.raises(InputError, match="the same items"):
        NovelGaussian(torch.zeros(2, 3), torch.ones(2, 1), torch.tensor([0.5]))
