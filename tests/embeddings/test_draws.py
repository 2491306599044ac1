import pytest
import torch

from cases import D, N, S, diagonal, draws_of_gaussians, draws_of_points, isotropic, point
from howsure.embeddings import Draws, Gaussian, Point
from howsure.errors import InputError


def test_a_sample_is_one_network_for_all_items() -> None:
    draws = draws_of_points()
    drawn = draws.sample(2 * S + 1)
    for i, sample in enumerate(drawn):
        assert torch.equal(sample, draws.atoms.mean[:, i % S])


def test_stack_and_by_draw_are_inverse() -> None:
    members = [diagonal(), diagonal().map(lambda t: t * 2)]
    again = Draws.stack(members).by_draw()
    for before, after in zip(members, again, strict=True):
        assert torch.equal(before.mean, after.mean)
        assert torch.equal(before.variance, after.variance)


def test_total_variance_splits_in_two() -> None:
    draws = draws_of_gaussians()
    assert torch.allclose(draws.aleatoric, draws.atoms.variance.mean(1))
    assert torch.allclose(draws.epistemic, draws.atoms.mean.var(1, correction=0))
    assert (draws.epistemic > 0).all()
    assert not draws_of_points().aleatoric.any()


def test_equal_draws_do_not_disagree() -> None:
    draws = Draws.stack([isotropic()] * 3)
    assert torch.allclose(draws.epistemic, torch.zeros(N, D, dtype=torch.float64), atol=1e-30)
    assert torch.allclose(draws.variance, isotropic().variance)


def test_to_gaussian_keeps_two_moments() -> None:
    draws = draws_of_gaussians()
    flat = draws.to_gaussian()
    assert torch.allclose(flat.mean, draws.mean)
    assert torch.allclose(flat.variance, draws.variance)


def test_family_names_what_is_drawn() -> None:
    assert draws_of_points().family == "draws:point"
    assert draws_of_gaussians().family == "draws:gaussian"


@pytest.mark.parametrize(
    "atoms",
    [torch.zeros(2, 3, 4), Point(torch.zeros(2, 3)), Draws(Point(torch.zeros(2, 3, 4))), None],
    ids=["tensor", "no draw axis", "draws", "None"],
)
def test_wrong_atoms(atoms: object) -> None:
    with pytest.raises(InputError, match="item axes"):
        Draws(atoms)  # type: ignore[arg-type]


def test_no_draw_at_all() -> None:
    with pytest.raises(InputError, match="at least one draw"):
        Draws(Point(torch.zeros(2, 0, 3)))
    with pytest.raises(InputError, match="at least one"):
        Draws.stack([])


def test_draws_of_different_kinds() -> None:
    with pytest.raises(InputError, match="one family and shape"):
        Draws.stack([point(), Gaussian(torch.zeros(N, D).double(), torch.ones(N, 1).double())])
    with pytest.raises(InputError, match="one family and shape"):
        Draws.stack([point(), point()[:2]])
