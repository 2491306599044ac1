"""Deep ensembles: networks trained apart, as one embedder (after Lakshminarayanan, Pritzel and Blundell)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from howsure.data.content import UNKNOWN, SeenContent
from howsure.embeddings import Draws, Embedding
from howsure.errors import InputError
from howsure.posteriors.base import PosteriorHead, posterior_of, single_head
from howsure.posteriors.laplace.last_layer import LastLayerLaplace

if TYPE_CHECKING:
    from howsure.embedder import Embedder


class MemberBackbones(nn.Module):
    """The concatenated features of S networks, (N, S·M)."""

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.cat([member(pixels) for member in self.members], 1)


class MemberHeads(PosteriorHead):
    """S heads, each for features of its own: `Draws` of whatever a head gives, rotated by `rotations` (S, D, D).

    A head may have a posterior of its last layer, in closed form.
    """

    kind: ClassVar[str] = "ensemble"
    rotations: Tensor

    def __init__(self, members: Sequence[nn.Module], rotations: Tensor):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("rotations", rotations)

    @property
    def single(self) -> nn.Module:
        return single_head(self.members[0])

    def forward(self, features: Tensor) -> Draws:
        members = zip(self.members, self._parts(features), self.rotations, strict=True)
        return Draws.stack([member(part).rotated(rotation) for member, part, rotation in members])

    def model_part(self, embedding: Embedding, features: Tensor | None = None) -> Tensor | None:
        """The disagreement of the members, and the mean of what each has by its own posterior."""
        disagreement = super().model_part(embedding)
        posteriors = self._posteriors()
        if not posteriors:
            return disagreement
        if features is None:
            return None
        members = zip(posteriors, embedding.by_draw(), self._parts(features), strict=True)
        own = [head.model_part(draw, part) for head, draw, part in members]
        return disagreement + torch.stack(own).mean(0)  # type: ignore[arg-type,operator]

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"members": len(self.members), "dim": self.rotations.shape[-1]}
        if posteriors := self._posteriors():
            described["laplace"] = [head.describe() for head in posteriors]
        return described

    @classmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        count, dim = described["members"], described["dim"]
        backbones, heads = ([copy.deepcopy(part) for _ in range(count)] for part in (backbone, head))
        if "laplace" in described:
            members = zip(heads, described["laplace"], strict=True)
            heads = [LastLayerLaplace.around(member, options) for member, options in members]
        return MemberBackbones(backbones), cls(heads, torch.zeros(count, dim, dim))

    def _posteriors(self) -> list[PosteriorHead]:
        return [posterior for head in self.members if (posterior := posterior_of(head))]

    def _parts(self, features: Tensor) -> Sequence[Tensor]:
        return features.unflatten(1, (len(self.members), -1)).unbind(1)  # S of (N, M)


def fit(members: Sequence[Embedder], pictures: Any) -> Embedder:
    """A new embedder that gives `Draws`, one for each member; its embeddings are compared member by member.

    Networks come out of training in axes of their own. So each is rotated to be closest to the first on `pictures`. No
    distance within a member changes by that, hence no ranking; but only then are means and variances over members about
    pictures, and not about axes. `pictures` is whatever `encode` takes: a few times as many as there are dimensions,
    labels not needed.

    Aleatoric variance is what the members predict, epistemic variance their disagreement. Members may have a last-layer
    Laplace posterior in closed form, which adds to their own variance.
    """
    _check(members)
    copies = [copy.deepcopy(member).to(members[0].device) for member in members]
    first = copies[0]
    spec = first.spec
    empty = torch.zeros(1, spec.channels, spec.height, spec.width)
    dim = first.card["dim"] or first.encode(empty).dim  # an external head may have no dim on its card
    unrotated = torch.eye(dim, device=first.device).repeat(len(copies), 1, 1)
    head = MemberHeads([member.head for member in copies], unrotated)
    backbone = MemberBackbones([member.backbone for member in copies])
    # What the members agree on is true of all of them. No matcher: distances are now means over members.
    first.card = {key: value for key, value in first.card.items() if all(m.card.get(key) == value for m in members)}
    card = {"origin": [member.fingerprint for member in members], "matcher": None}
    if all(member.card.get("link") for member in members):
        card["links"] = [member.card["link"] for member in members]  # each is about its own member's distances
    joined = first.with_head(head, card, backbone=backbone).eval()

    embedding, content, _ = joined.encode_content(pictures)
    shown = UNKNOWN if content is None else SeenContent(content, complete=True)
    joined.seen = reduce(or_, (member.seen for member in members), shown)
    points = [draw.point_estimate.double() for draw in embedding.by_draw()]
    rotations = torch.stack([procrustes(each, points[0]) for each in points])
    head.rotations.copy_(rotations)
    left = sum((each @ rotation - points[0]).square().sum() for each, rotation in zip(points, rotations, strict=True))
    share = float(left / points[0].square().sum()) / max(1, len(points) - 1)
    joined.card["alignment"] = {"pictures": len(points[0]), "left_apart": round(share, 4)}
    return joined


def procrustes(points: Tensor, target: Tensor) -> Tensor:
    """The orthogonal R (D, D) of least Σ |x R - y|² over rows x of `points` and y of `target`, both (N, D).

    R = U V^T, where X^T Y = U S V^T. Reflections are allowed: to distances they are as good as rotations.

    >>> rotation = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    >>> points = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.allclose(procrustes(points, points @ rotation), rotation, atol=1e-6)
    True
    """
    if points.shape != target.shape or points.ndim != 2 or len(points) < points.shape[-1]:
        raise InputError(
            "points to align by",
            expected="(N, D) on both sides, for at least as many pictures as dimensions",
            got=f"{tuple(points.shape)} and {tuple(target.shape)}",
            fix="give more pictures",
        )
    left, _, right = torch.linalg.svd(points.T @ target)
    return left @ right


def _check(members: Sequence[Embedder]) -> None:
    if len(members) < 2:
        raise InputError("members", expected="two embedders or more", got=str(len(members)))
    prints = [member.fingerprint for member in members]
    if len({*prints}) < len(prints):
        twice = next(name for name in prints if prints.count(name) > 1)
        raise InputError("members", expected="different networks", got=f"{twice} twice", fix="train with other seeds")
    for number, member in enumerate(members):
        posterior = posterior_of(member.head)
        if posterior and not posterior.joinable:
            raise InputError(
                "members",
                expected="embedders without a posterior, or with a last-layer Laplace posterior in closed form",
                got=f"{posterior.kind} in member {number}",
                fix="join single networks",
            )
        differences = _differences(members[0], member)
        if differences:
            raise InputError(
                "members",
                expected="the same input, backbone, head and dimension in all",
                got=f"in member {number}, {'; '.join(differences)}",
                fix="train all members with one recipe and seeds of their own",
            )


def _network(member: Embedder) -> nn.Module:
    """Backbone and head of the network itself: what a posterior keeps may differ from member to member."""
    return nn.ModuleList([member.backbone, single_head(member.head)])


def _differences(first: Embedder, other: Embedder) -> list[str]:
    differences = [
        f"{key} {other.card[key]} in place of {first.card[key]}"
        for key in ("input", "backbone", "head", "dim")
        if other.card[key] != first.card[key]
    ]
    if differences:
        return differences
    if type(first.head) is not type(other.head):
        return [f"head {type(other.head).__name__} in place of {type(first.head).__name__}"]
    ours, theirs = ({name: tuple(t.shape) for name, t in _network(one).state_dict().items()} for one in (first, other))
    return [] if ours == theirs else ["weights of other names or shapes"]
