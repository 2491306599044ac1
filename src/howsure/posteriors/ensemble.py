"""Deep ensembles: networks trained apart, as one embedder (after Lakshminarayanan, Pritzel and Blundell)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from howsure.embeddings import Draws, Embedding, point_estimates
from howsure.errors import InputError
from howsure.posteriors.base import PosteriorHead, posterior_of, single_head
from howsure.posteriors.laplace.last_layer import LastLayerLaplace

if TYPE_CHECKING:
    from howsure.embedder import Embedder

__all__ = ["MemberBackbones", "MemberHeads", "fit", "procrustes"]


class MemberBackbones(nn.Module):
    """The features of S networks side by side, (N, S·M)."""

    def __init__(self, members: Sequence[nn.Module]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, pixels: Tensor) -> Tensor:
        """(N, C, H, W) pixels to features."""
        return torch.cat([member(pixels) for member in self.members], 1)


class MemberHeads(PosteriorHead):
    """S heads, each for features of its own: `Draws` of whatever a head gives, turned by `rotations` (S, D, D).

    A head may have a posterior of its last layer, in closed form: then networks differ, and each knows what it ignores.
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
        """(N, S·M) features to beliefs."""
        beliefs = [member(part) for member, part in zip(self.members, self._parts(features), strict=True)]
        return Draws.stack([belief.rotated(self.rotations[s]) for s, belief in enumerate(beliefs)])

    def model_part(self, belief: Embedding, features: Tensor | None = None) -> Tensor | None:
        """What the networks disagree about, and on average what each of them ignores of its own weights."""
        apart = super().model_part(belief)
        posteriors = self._posteriors()
        if not posteriors:
            return apart
        if features is None:
            return None
        told = zip(posteriors, belief.by_draw(), self._parts(features), strict=True)
        ignored = [head.model_part(draw, part) for head, draw, part in told]
        return apart + torch.stack(ignored).mean(0)  # type: ignore[arg-type,operator]

    def describe(self) -> dict[str, Any]:
        told = {"members": len(self.members), "dim": self.rotations.shape[-1]}
        return told | {"laplace": [head.describe() for head in self._posteriors()]} if self._posteriors() else told

    @classmethod
    def blank(cls, backbone: nn.Module, head: nn.Module, described: dict[str, Any]) -> tuple[nn.Module, nn.Module]:
        count, dim = described["members"], described["dim"]
        backbones, heads = ([copy.deepcopy(part) for _ in range(count)] for part in (backbone, head))
        if "laplace" in described:
            each = zip(heads, described["laplace"], strict=True)
            heads = [LastLayerLaplace.around(one, dict(said)) for one, said in each]
        return MemberBackbones(backbones), cls(heads, torch.zeros(count, dim, dim))

    def _posteriors(self) -> list[PosteriorHead]:
        return [posterior for head in self.members if (posterior := posterior_of(head))]

    def _parts(self, features: Tensor) -> Sequence[Tensor]:
        return features.unflatten(1, (len(self.members), -1)).unbind(1)  # S of (N, M)


def fit(members: Sequence[Embedder], pictures: Any) -> Embedder:
    """A new embedder that gives `Draws`, one for each member; its beliefs are compared member by member.

    Networks come out of training in axes of their own. So each is turned to the first by the rotation that brings
    their places of `pictures` closest. No distance within a member changes by that, hence no ranking; but only then
    are means and variances over members about pictures, and not about axes. `pictures` is whatever `encode` takes: a
    few times as many as there are dimensions, labels not needed.

    Aleatoric variance is what the members say about pictures, epistemic variance what they disagree about. Members may
    have a last-layer Laplace posterior in closed form; what they say then holds their own weights' share, too.
    """
    _check(members)
    copies = [copy.deepcopy(member).to(members[0].device) for member in members]
    first = copies[0]
    dim = first.card["dim"] or first.encode(_empty_picture(first)).dim  # a head of another make need not have told
    apart = torch.eye(dim, device=first.device).repeat(len(copies), 1, 1)
    head = MemberHeads([member.head for member in copies], apart)
    backbone = MemberBackbones([member.backbone for member in copies])
    # What the members agree on is true of all of them. No matcher: distances are now means over members.
    first.card = {key: value for key, value in first.card.items() if all(m.card.get(key) == value for m in members)}
    told = {"origin": [member.fingerprint for member in members], "matcher": None}
    if all(member.card.get("link") for member in members):
        told["links"] = [member.card["link"] for member in members]  # each is about its own member's distances
    joined = first.with_head(head, told, backbone=backbone).eval()

    seen = [draw.mean.double() for draw in point_estimates(joined.encode(pictures)).by_draw()]
    turns = torch.stack([procrustes(place, seen[0]) for place in seen])
    head.rotations.copy_(turns)
    left = sum((place @ turn - seen[0]).square().sum() for place, turn in zip(seen, turns, strict=True))
    share = float(left / seen[0].square().sum()) / max(1, len(seen) - 1)
    joined.card["alignment"] = {"pictures": len(seen[0]), "left_apart": round(share, 4)}
    return joined


def procrustes(places: Tensor, target: Tensor) -> Tensor:
    """The orthogonal R (D, D) of least Σ |x R - y|² over rows x of `places` and y of `target`, both (N, D).

    R = U V^T, where X^T Y = U S V^T. Reflections are allowed: to distances they are as good as rotations.

    >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    >>> places = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.allclose(procrustes(places, places @ turn), turn, atol=1e-6)
    True
    """
    if places.shape != target.shape or places.ndim != 2 or len(places) < places.shape[-1]:
        raise InputError(
            "places to align by",
            expected="(N, D) on both sides, for at least as many pictures as dimensions",
            got=f"{tuple(places.shape)} and {tuple(target.shape)}",
            fix="give more pictures",
        )
    left, _, right = torch.linalg.svd(places.T @ target)
    return left @ right


def _empty_picture(embedder: Embedder) -> Tensor:
    spec = embedder.spec
    return torch.zeros(1, spec.channels, spec.height, spec.width)


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
    told = [
        f"{key} {other.card[key]} in place of {first.card[key]}"
        for key in ("input", "backbone", "head", "dim")
        if other.card[key] != first.card[key]
    ]
    if told:
        return told
    if type(first.head) is not type(other.head):
        return [f"head {type(other.head).__name__} in place of {type(first.head).__name__}"]
    ours, theirs = ({name: tuple(t.shape) for name, t in _network(one).state_dict().items()} for one in (first, other))
    return [] if ours == theirs else ["weights of other names or shapes"]
