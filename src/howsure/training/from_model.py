"""Uncertainty for an existing model: its point estimates are kept and frozen, only the scales learn."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from howsure.data import InputSpec
from howsure.embedder import EXTERNAL, Embedder
from howsure.errors import InputError
from howsure.heads import Head
from howsure.posteriors import posterior_of
from howsure.recipe import Recipe

LOCATION = "location"  # the layer of a head that gives the point estimate


def network_of(start: Embedder) -> dict[str, Any]:
    """The keys of a recipe that an existing model fixes."""
    spec, card = start.spec, start.card
    size = {"height": spec.height, "width": spec.width, "channels": spec.channels}
    decided = size | {"pixel_mean": spec.mean, "pixel_std": spec.std, "dim": card["dim"], "backbone": card["backbone"]}
    return {key: value for key, value in decided.items() if value not in (None, EXTERNAL)}


def frozen_from(start: Embedder, recipe: Recipe, spec: InputSpec, *, head: str) -> tuple[Embedder, nn.Module]:
    """A new embedder whose means are those of `start` for ever, and the part of its head that may learn."""
    if posterior := posterior_of(start.head):
        raise InputError(
            "model to start from", expected="one network", got=f"a posterior, {posterior.kind}", fix="use its origin"
        )
    _check_network(start, recipe)
    named = start.card["backbone"] != EXTERNAL
    backbone = recipe.backbone if named else copy.deepcopy(start.backbone)
    embedder = Embedder(backbone, head, spec, dim=recipe.dim, card={"origin": start.fingerprint})
    embedder.to(start.device)
    embedder.backbone.load_state_dict(start.backbone.state_dict())
    wanted = embedder.head.state_dict()
    given = {name: t for name, t in start.head.state_dict().items() if name in wanted and t.shape == wanted[name].shape}
    embedder.head.load_state_dict(wanted | given)
    embedder.eval().requires_grad_(False)  # in eval for good: batch norm statistics move the means
    _check_means(start, embedder)
    free = nn.ModuleList(part for name, part in embedder.head.named_children() if name != LOCATION)
    return embedder, free.requires_grad_(True)


def settle_scales(embedder: Embedder, pixels: Tensor, labels: Tensor) -> None:
    """Bring all variances to the level at which the mutual likelihood of these pictures is best.

    With one factor c for all, that is c = mean of |mean - mean'|² / (uncertainty + uncertainty') over pairs of one
    class. A model without scales fixes no length for z, so a head on top of it may start far off.
    """
    embedding = embedder.encode(pixels)
    first, second = torch.triu_indices(len(labels), len(labels), offset=1)
    mates = labels[first] == labels[second]
    a, b = embedding[first[mates]], embedding[second[mates]]
    factor = ((a.mean - b.mean).square().sum(-1) / (a.uncertainty + b.uncertainty)).mean().item()
    if not factor > 0:
        raise InputError(
            "model to start from",
            expected="a point of its own for every picture",
            got="the same point for all pictures of a class",
            fix="train it again, or on other data",
        )
    cast("Head", embedder.head).scale_variance(factor)


def _check_network(start: Embedder, recipe: Recipe) -> None:
    if differences := recipe.but(**network_of(start)).differences(recipe):
        raise InputError(
            "recipe",
            expected="the network and the input of the model to start from",
            got="; ".join(differences),
            fix="leave these keys as the model has them, or train a new model",
        )


def _check_means(start: Embedder, embedder: Embedder) -> None:
    """Another head may have layers of the same names and still give other means."""
    spec = start.spec
    noise = torch.rand(4, spec.channels, spec.height, spec.width, generator=torch.Generator().manual_seed(0))
    if not torch.equal(start.encode(noise).mean, embedder.encode(noise).mean):
        raise InputError(
            "model to start from",
            expected=f"a head whose means a {embedder.card['head']} head can keep, as those of point and gaussian",
            got=repr(start.card["head"]),
        )
