"""A method is a head and the loss that trains it: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from howsure.embedder import Embedder
from howsure.errors import InputError
from howsure.losses import (
    Centroids,
    CentroidsAndClasses,
    ExpectedLikelihood,
    LossRanking,
    MCInfoNCE,
    MutualLikelihood,
    NormCrossEntropy,
    NormTriplet,
    SumLoss,
    build_loss,
    made,
)
from howsure.posteriors import dropout
from howsure.posteriors.laplace import online
from howsure.posteriors.laplace.learned_variance import with_learned_variance
from howsure.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """What a loss may need to know before it is made."""

    recipe: Recipe
    classes: int
    features: int


def _only_from_a_model(setting: Setting) -> nn.Module:
    raise InputError(
        f"method {setting.recipe.method}",
        expected="a model to start from",
        got="none",
        fix="--from MODEL, start=embedder in Python, or method gaussian, which trains both",
    )


@dataclass(frozen=True)
class Method:
    """The name of a head, how its loss is made, and how the loss of its scales alone, for an existing model.

    `posterior` makes a posterior of the new embedder, before training. Where it is trained too, `around` takes the
    loss, the embedder and the number of pictures to a loss that trains it, and `settle` shows it the held-out pixels
    after each epoch. `finish` makes the final embedder from the best one and the held-out pixels and labels.
    """

    head: str
    loss: Callable[[Setting], nn.Module]
    scales: Callable[[Setting], nn.Module] | None = None
    posterior: Callable[[Embedder, int], Embedder] = lambda embedder, held_out: embedder
    around: Callable[[nn.Module, Embedder, int], nn.Module] = lambda loss, embedder, pictures: loss
    settle: Callable[[Embedder, Tensor], None] = lambda embedder, pixels: None
    finish: Callable[[Embedder, Tensor, Tensor], Embedder] = lambda embedder, pixels, labels: embedder


def method_named(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise InputError("method", expected=" or ".join(METHODS), got=repr(name))
    return METHODS[name]


def scales_alone(name: str) -> Callable[[Setting], nn.Module]:
    """How the loss of a method's scales alone is made, for an existing model."""
    make = method_named(name).scales
    if make is None:
        able = " or ".join(known for known, method in METHODS.items() if method.scales is not None)
        raise InputError(
            "method",
            expected=f"one that can start from a model: {able}",
            got=repr(name),
            fix="train it from pictures alone",
        )
    return make


def _means(setting: Setting) -> nn.Module:
    """The recipe's loss on the means."""
    recipe = setting.recipe
    return build_loss(recipe.loss, miner=recipe.miner, options=recipe.loss_options)


def _means_and_scales(setting: Setting) -> nn.Module:
    """The recipe's loss on the means, and scales from mutual likelihood; csd and hedged train both themselves."""
    both = setting.recipe.loss in ("csd", "hedged")
    return _means(setting) if both else SumLoss(_means(setting), MutualLikelihood())


def _own_options(setting: Setting, *names: str) -> dict[str, Any]:
    """Options for a method's own loss: the recipe's, if it names that loss.

    The default loss and its options give way; another loss or a miner would go unused, which is an error.
    """
    recipe = setting.recipe
    if recipe.loss not in (*names, Recipe().loss) or recipe.miner != "all":
        raise InputError(
            f"method {recipe.method}",
            expected=f"its own loss, {' or '.join(names)}, and no miner",
            got=f"loss {recipe.loss}, miner {recipe.miner}",
            fix="leave both out, or choose method point or gaussian",
        )
    return dict(recipe.loss_options) if recipe.loss in names else {}


def _own(name: str) -> Callable[[Setting], nn.Module]:
    """A method's own loss."""
    return lambda setting: build_loss(name, options=_own_options(setting, name))


def _sized(kind: type[nn.Module], name: str) -> Callable[[Setting], nn.Module]:
    """A method's own loss, which must know the number of classes and dimensions."""
    return lambda setting: made(kind, _sizes(setting) | _own_options(setting, name))


def _sizes(setting: Setting) -> dict[str, Any]:
    return {"classes": setting.classes, "dim": setting.recipe.dim}


def _centroids_and_classes(setting: Setting) -> nn.Module:
    """Centroids and a classifier; of the options, `weight` is the classifier's."""
    options = dict(setting.recipe.loss_options)
    own = {key: options.pop(key) for key in ("weight",) if key in options}
    centroids = _sized(Centroids, "centroids")(replace(setting, recipe=setting.recipe.but(loss_options=options)))
    return made(CentroidsAndClasses, {"centroids": centroids, "features": setting.features} | own)


def _norm(setting: Setting) -> nn.Module:
    """Free vectors, by cross-entropy or by triplets; their length as concentration."""
    options = _own_options(setting, "cross-entropy", "triplet")
    if setting.recipe.loss == "triplet":
        return made(NormTriplet, options)
    return made(NormCrossEntropy, _sizes(setting) | options)


def _dropped(embedder: Embedder, held_out: int) -> Embedder:
    other = dropout.fit(embedder)
    del other.card["origin"]  # random weights are no origin
    return other


def _at_a_draw(loss: nn.Module, embedder: Embedder, pictures: int) -> nn.Module:
    return online.AtADraw(loss, embedder.head, pictures=pictures)  # type: ignore[arg-type]


def _ambiguous(embedder: Embedder, pixels: Tensor, labels: Tensor) -> Embedder:
    parts = zip(pixels.split(256), labels.split(256), strict=True)
    return with_learned_variance(embedder, [(embedder.spec.normalise(part), codes) for part, codes in parts])


METHODS = {
    "point": Method("point", _means),
    "dropout": Method("point", _means, posterior=_dropped),
    "laplace-online": Method(
        "point",
        _means,
        posterior=online.prepared,
        around=_at_a_draw,
        settle=online.settle_novelty,
        finish=_ambiguous,
    ),
    "gaussian": Method("gaussian", _means_and_scales, scales=lambda setting: MutualLikelihood()),
    "pfe": Method("gaussian", _only_from_a_model, scales=lambda setting: MutualLikelihood()),
    "ranking": Method(
        "gaussian",
        lambda setting: SumLoss(_means(setting), LossRanking()),
        scales=lambda setting: LossRanking(),
    ),
    "csd": Method("gaussian", _own("csd")),
    "soft-contrastive": Method("free-point", _own("soft-contrastive")),
    "hedged": Method("hedged", _own("hedged")),
    "hedged-2": Method("hedged-2", _own("hedged")),
    "centroids": Method("vmf", _sized(Centroids, "centroids")),
    "centroids-ce": Method("vmf", _centroids_and_classes),
    "vmf": Method("norm", _sized(ExpectedLikelihood, "vmf")),
    "norm": Method("norm", _norm),
    "mc-infonce": Method("vmf", lambda setting: made(MCInfoNCE, _own_options(setting, "mc-infonce"))),
}
