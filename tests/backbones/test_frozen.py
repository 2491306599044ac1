"""A network that nothing trains: it stays as it is, and sees each picture once where that is remembered."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from howsure.backbones import remembering
from howsure.backbones.frozen import BATCH, Frozen
from howsure.errors import InputError


class _Counting(nn.Module):
    """Four features of a picture, and how many pictures it was shown that were not empty."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 4)
        self.seen = 0

    def forward(self, pixels: Tensor) -> Tensor:
        self.seen += int((pixels.flatten(1) != 0).any(1).sum())
        return self.layer(pixels.flatten(1))


@pytest.fixture
def counting() -> _Counting:
    torch.manual_seed(0)
    return _Counting()


@pytest.fixture
def pictures() -> Tensor:
    return torch.rand(2 * BATCH + 5, 3, 2, 2, generator=torch.Generator().manual_seed(0))


def test_nothing_trains_it(counting: _Counting) -> None:
    frozen = nn.Sequential(Frozen(nn.Sequential(nn.Dropout(), counting)))
    frozen.train()
    assert not any(module.training for module in frozen[0].modules())
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_without_remembering_every_call_is_a_look(counting: _Counting, pictures: Tensor) -> None:
    frozen = Frozen(counting)
    assert torch.equal(frozen(pictures), frozen(pictures))
    assert counting.seen == 2 * len(pictures)


def test_each_picture_is_seen_once(counting: _Counting, pictures: Tensor) -> None:
    frozen = Frozen(counting)
    expected = frozen(pictures)
    counting.seen = 0
    with remembering():
        first = frozen(pictures)
        torch.testing.assert_close(first, expected)
        assert torch.equal(frozen(pictures.flip(0)), first.flip(0))
        assert torch.equal(frozen(pictures[3:5]), first[3:5])
        assert counting.seen == len(pictures)
        assert torch.equal(frozen(pictures[[0, 0]]), first[[0, 0]])
    frozen(pictures)
    assert counting.seen == 2 * len(pictures)


def test_the_same_bits_in_whatever_batch(pictures: Tensor) -> None:
    torch.manual_seed(0)
    frozen = Frozen(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 64)))
    with remembering():
        whole = frozen(pictures)
    with remembering():
        parts = torch.cat([frozen(part) for part in pictures.split(7)])
    assert torch.equal(whole, parts)


def test_other_weights_are_another_network(counting: _Counting, pictures: Tensor) -> None:
    frozen = Frozen(counting)
    with remembering():
        before = frozen(pictures)
        counting.load_state_dict({name: 2 * tensor for name, tensor in counting.state_dict().items()})
        torch.testing.assert_close(frozen(pictures), 2 * before)


def test_a_file_serves_the_next_process(counting: _Counting, pictures: Tensor, tmp_path: Path) -> None:
    file = tmp_path / "new" / "features.sqlite"
    frozen = Frozen(counting)
    with remembering(file):
        assert not file.exists()  # nothing to keep so far
        first = frozen(pictures)
    with remembering(file), remembering():  # the outer one is used
        assert torch.equal(frozen(pictures), first)
    assert counting.seen == len(pictures)


def test_a_file_of_something_else_is_left_alone(counting: _Counting, pictures: Tensor, tmp_path: Path) -> None:
    file = tmp_path / "features.sqlite"
    file.write_text("dear diary" * 500)
    with remembering(file), pytest.raises(InputError, match="cache of features") as caught:
        Frozen(counting)(pictures)
    assert "delete" in caught.value.fix
    assert file.read_text() == "dear diary" * 500


def test_pictures_of_the_same_pixels_but_another_shape_are_others() -> None:
    halves = Frozen(nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten()))
    pixels = torch.arange(8.0).reshape(1, 1, 2, 4)
    with remembering():
        assert halves(pixels).tolist() == [[2.5, 4.5]]
        assert halves(pixels.reshape(1, 1, 4, 2)).tolist() == [[3.0, 4.0]]


def test_gradients_need_the_network(counting: _Counting, pictures: Tensor) -> None:
    frozen = Frozen(counting)
    with remembering():
        frozen(pictures)
        frozen(pictures.requires_grad_()).sum().backward()
        assert pictures.grad is not None
        counting.requires_grad_(True)  # as a posterior of the whole network does
        frozen(pictures.detach()).sum().backward()
    assert counting.layer.weight.grad is not None
