"""A method is a head and the loss that trains it: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from howsure.errors import InputError
from howsure.losses import MutualLikelihood, Together, build_loss
from howsure.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """What a loss may need to know before it is made."""

    recipe: Recipe
    classes: int
    features: int


@dataclass(frozen=True)
class Method:
    """The name of a head, and how its loss is made."""

    head: str
    loss: Callable[[Setting], nn.Module]


def method_named(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise InputError("method", expected=" or ".join(METHODS), got=repr(name))
    return METHODS[name]


def _means(setting: Setting) -> nn.Module:
    """The recipe's loss on the means."""
    recipe = setting.recipe
    return build_loss(recipe.loss, miner=recipe.miner, options=recipe.loss_options)


def _means_and_scales(setting: Setting) -> nn.Module:
    """The recipe's loss on the means, and scales from mutual likelihood; csd trains both itself."""
    return _means(setting) if setting.recipe.loss == "csd" else Together(_means(setting), MutualLikelihood())


METHODS = {
    "point": Method("point", _means),
    "gaussian": Method("gaussian", _means_and_scales),
}
