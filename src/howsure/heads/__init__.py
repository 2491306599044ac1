"""Features to embeddings: a head is a small module that maps (N, M) features to an `Embedding`; one file each."""

from __future__ import annotations

from howsure.errors import InputError
from howsure.heads.base import Head
from howsure.heads.free_point import FreePointHead
from howsure.heads.gaussian import GaussianHead
from howsure.heads.hedged import HedgedHead
from howsure.heads.mixture import TwoModesHead
from howsure.heads.point import PointHead
from howsure.heads.von_mises_fisher import NormHead, VonMisesFisherHead

__all__ = [
    "HEADS",
    "FreePointHead",
    "GaussianHead",
    "Head",
    "HedgedHead",
    "NormHead",
    "PointHead",
    "TwoModesHead",
    "VonMisesFisherHead",
    "build_head",
]

HEADS: dict[str, type[Head]] = {
    "point": PointHead,
    "gaussian": GaussianHead,
    "free-point": FreePointHead,
    "hedged": HedgedHead,
    "hedged-2": TwoModesHead,
    "vmf": VonMisesFisherHead,
    "norm": NormHead,
}


def build_head(name: str, features: int, dim: int) -> Head:
    """The head of that name."""
    if name not in HEADS:
        raise InputError("head", expected=" or ".join(HEADS), got=repr(name))
    if dim < 1:
        raise InputError("dim", expected="at least 1", got=str(dim))
    return HEADS[name](features, dim)
