"""An uncertainty that ranks pictures by their loss."""

import pytest
import torch
from pytorch_metric_learning import distances, losses, reducers
from torch import Tensor

from howsure.embeddings import Gaussian, Point
from howsure.errors import InputError
from howsure.losses import LossRanking
from howsure.losses.ranking import contrastive_by_item

LABELS = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])
MEAN = torch.nn.functional.normalize(torch.randn(9, 3, generator=torch.Generator().manual_seed(0)), dim=-1)


def by_loops(mean: Tensor, labels: Tensor, margin: float) -> list[float]:
    out = []
    for i in range(len(mean)):
        pull, push = [], []
        for j in range(len(mean)):
            squared = float((mean[i] - mean[j]).square().sum())
            if labels[i] != labels[j]:
                push.append(max(0.0, margin - squared))
            elif i != j:
                pull.append(squared)
        out.append(sum(pull) / len(pull) + sum(push) / len(push))
    return out


def test_the_loss_of_an_item_by_hand() -> None:
    task, paired = contrastive_by_item(MEAN, LABELS, margin=0.7)
    assert task.tolist() == pytest.approx(by_loops(MEAN, LABELS, 0.7), rel=1e-5)
    assert paired.all()


def test_its_mean_over_items_is_the_contrastive_loss_of_a_balanced_batch() -> None:
    theirs = losses.ContrastiveLoss(0.0, 1.2, distance=distances.LpDistance(power=2), reducer=reducers.MeanReducer())(
        MEAN, LABELS
    )
    assert contrastive_by_item(MEAN, LABELS)[0].mean().item() == pytest.approx(theirs.item(), rel=1e-5)


def test_an_item_alone_in_its_class_is_not_ranked() -> None:
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 3])
    assert contrastive_by_item(MEAN, labels)[1].tolist() == [True] * 8 + [False]
    log_scale = torch.zeros(9, 1, requires_grad=True)
    for _ in range(20):
        LossRanking()(Gaussian(MEAN, log_scale.exp()), labels).backward()
    assert log_scale.grad is not None
    assert log_scale.grad[8] == 0
    assert log_scale.grad[:8].any()


def test_the_right_order_with_the_gap_costs_nothing_and_the_wrong_one_its_depth() -> None:
    order = contrastive_by_item(MEAN, LABELS)[0].argsort().argsort().float()
    right = Gaussian(MEAN, torch.exp(order * 0.1)[:, None])  # h = 0.2 · rank + constant
    assert LossRanking(gap=0.1)(right, LABELS).item() == 0
    assert LossRanking(gap=2)(right, LABELS).item() > 0
    wrong = Gaussian(MEAN, torch.exp(-order * 0.1)[:, None])
    torch.manual_seed(0)
    value = LossRanking(gap=0.1)(wrong, LABELS).item()
    torch.manual_seed(0)
    pairs = torch.randperm(9)[:8].reshape(2, 4)  # the ninth sits out
    assert value == pytest.approx((0.1 + 0.2 * (order[pairs[0]] - order[pairs[1]]).abs()).mean().item(), rel=1e-4)


def test_learned_uncertainty_rises_with_the_loss_and_no_place_moves() -> None:
    mean, log_scale = MEAN.clone().requires_grad_(), torch.zeros(9, 1, requires_grad=True)
    optimizer = torch.optim.Adam([mean, log_scale], lr=0.02)
    torch.manual_seed(0)
    for _ in range(300):
        optimizer.zero_grad()
        LossRanking()(Gaussian(mean, log_scale.exp()), LABELS).backward()
        optimizer.step()
    assert torch.equal(mean.detach(), MEAN)
    task = contrastive_by_item(MEAN, LABELS)[0]
    assert torch.equal(log_scale.detach()[:, 0].argsort(), task.argsort())


def test_a_tied_pair_pays_the_gap_and_pushes_nobody() -> None:
    mean = torch.tensor([[0.0], [0.0], [0.3], [0.3], [0.5], [0.5]])  # two by two, the losses are equal
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    log_scale = torch.zeros(6, 1, requires_grad=True)
    for seed in range(100):
        torch.manual_seed(seed)
        pairs = torch.randperm(6).reshape(2, 3)
        if all(labels[a] == labels[b] for a, b in pairs.T.tolist()):
            break
    torch.manual_seed(seed)
    value = LossRanking()(Gaussian(mean, log_scale.exp()), labels)
    value.backward()
    assert value.item() == pytest.approx(0.1)
    assert log_scale.grad is not None
    assert not log_scale.grad.any()


@pytest.mark.parametrize(
    ("mean", "labels"),
    [
        (MEAN, torch.zeros(9, dtype=torch.long)),
        (MEAN, torch.arange(9)),
        (torch.ones(9, 3), LABELS),
        (MEAN[:3], torch.tensor([0, 0, 0])),
    ],
    ids=["one class", "no positives", "one mean", "three of a class"],
)
def test_a_batch_that_ranks_nothing_is_refused(mean: Tensor, labels: Tensor) -> None:
    with pytest.raises(InputError, match="batch: expected items with a positive and a negative"):
        LossRanking()(Gaussian(mean, torch.ones(len(mean), 1)), labels)


def test_points_and_nan_are_refused() -> None:
    with pytest.raises(InputError, match="some variance"):
        LossRanking()(Point(MEAN), LABELS)
    broken = MEAN.clone()
    broken[4] = torch.nan
    with pytest.raises(InputError, match="first item 4"):
        LossRanking()(Gaussian(broken, torch.ones(9, 1)), LABELS)
