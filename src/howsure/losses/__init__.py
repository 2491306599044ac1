"""Losses: modules that map an `Embedding` of one batch and its labels, (N,), to a scalar.

Classical ones are pytorch-metric-learning's; ours are one file each.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

from howsure.errors import InputError
from howsure.losses.centroids import Centroids, CentroidsAndClasses, nearest_centroid
from howsure.losses.classical import OnMeans
from howsure.losses.csd import ClosedFormSampledDistance
from howsure.losses.features import ReadsFeatures, batch_loss
from howsure.losses.hedged import Hedged, SoftContrastive, learned_link
from howsure.losses.mc_infonce import MCInfoNCE
from howsure.losses.norm import NormCrossEntropy, NormTriplet
from howsure.losses.pfe import MutualLikelihood, SumLoss
from howsure.losses.ranking import LossRanking
from howsure.losses.vmf import ExpectedLikelihood

__all__ = [
    "LOSSES",
    "MINERS",
    "Centroids",
    "CentroidsAndClasses",
    "ClosedFormSampledDistance",
    "ExpectedLikelihood",
    "Hedged",
    "LossRanking",
    "MCInfoNCE",
    "MutualLikelihood",
    "NormCrossEntropy",
    "NormTriplet",
    "OnMeans",
    "ReadsFeatures",
    "SoftContrastive",
    "SumLoss",
    "batch_loss",
    "build_loss",
    "learned_link",
    "made",
    "nearest_centroid",
]

Loss = TypeVar("Loss", bound=nn.Module)
ON_PAIRS: dict[str, type[nn.Module]] = {
    "csd": ClosedFormSampledDistance,
    "soft-contrastive": SoftContrastive,
    "hedged": Hedged,
}
LOSSES = ("contrastive", "triplet", *ON_PAIRS)
MINERS = ("all", "easy", "semihard", "hard", "hardest")


def build_loss(name: str, *, miner: str = "all", options: Mapping[str, Any] | None = None) -> nn.Module:
    """A loss by name: one of `LOSSES`, or any class of `pytorch_metric_learning.losses`.

    `options` go to the loss as they are; `contrastive` also takes `power`, of the distance. Miners work on triplets
    with the loss's margin; `all` mines nothing away.
    """
    from pytorch_metric_learning import losses

    options = dict(options or {})
    if name in ON_PAIRS:
        if miner != "all":
            raise InputError("miner", expected=f"all with {name}, which takes every pair", got=repr(miner))
        return made(ON_PAIRS[name], options)
    if name == "contrastive":
        return OnMeans(_contrastive(options), _miner(miner, margin=0.2))
    if name == "triplet":
        options.setdefault("margin", 0.2)
        return OnMeans(made(losses.TripletMarginLoss, options), _miner(miner, margin=options["margin"]))
    if name.startswith("_") or not isinstance(getattr(losses, name, None), type):
        known = [*LOSSES, *(n for n in dir(losses) if n.endswith("Loss"))]
        close = difflib.get_close_matches(name, known, 1)
        fix = f"did you mean {close[0]}?" if close else "see pytorch_metric_learning.losses"
        raise InputError(
            "loss", expected=f"{', '.join(LOSSES)} or a pytorch-metric-learning class", got=repr(name), fix=fix
        )
    return OnMeans(made(getattr(losses, name), options), _miner(miner, margin=0.2))


def _contrastive(options: dict[str, Any]) -> nn.Module:
    from pytorch_metric_learning import distances, losses

    # Squared distances by default: the unsquared form can collapse every picture to one point.
    distance = distances.LpDistance(power=options.pop("power", 2))
    return made(losses.ContrastiveLoss, {"pos_margin": 0.0, "neg_margin": 1.2, "distance": distance} | options)


def _miner(name: str, *, margin: float) -> nn.Module | None:
    from pytorch_metric_learning import miners

    if name == "all":
        return None
    if name == "hardest":
        return miners.BatchHardMiner()
    if name in MINERS:
        return miners.TripletMarginMiner(margin=margin, type_of_triplets=name)
    raise InputError("miner", expected=" or ".join(MINERS), got=repr(name))


def made(loss: type[Loss], options: Mapping[str, Any]) -> Loss:
    """A loss of that class; an option it does not take is an `InputError`."""
    try:
        return loss(**options)
    except TypeError as error:
        raise InputError(f"options of {loss.__name__}", got=", ".join(options) or "none", fix=str(error)) from error
