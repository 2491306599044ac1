"""One training loop, readable top to bottom: split, batches, loss, validation, checkpoint, early stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from howsure import data
from howsure.backbones import PRETRAINED, feature_count, remembering, start_backbone
from howsure.data import BalancedBatches, ImageSet, InputSpec, validation_split
from howsure.data.content import SeenContent, content_hashes
from howsure.embedder import Embedder
from howsure.errors import TrainingError
from howsure.losses import batch_loss, learned_link
from howsure.recipe import Recipe, read_recipe, recipe_for
from howsure.training.choice import fitting_recipe
from howsure.training.events import Epoch, Event, Step, Trained
from howsure.training.from_model import frozen_from, settle_scales
from howsure.training.methods import Setting, method_named, scales_alone
from howsure.training.preparation import compute_features, read_pictures
from howsure.training.schedule import learning_rate
from howsure.training.state import State, stored_recipe
from howsure.training.validation import Validation, finite

NETWORK = {"backbone", "height", "width", "channels", "pixel_mean", "pixel_std"}  # keys that a look would decide


def train(
    pictures: str | Path | ImageSet,
    recipe: Recipe | str | Path | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    tell: Callable[[Event], None] = lambda event: None,
    **settings: Any,
) -> Embedder:
    """Train an embedder on labelled pictures: a folder of folders, a table, a published set.

    `recipe` is one, or a file, or the name of a shipped one; by default the one for these pictures: photographs get a
    pretrained network, `"default"` trains one from scratch. `settings` change keys of it:
    `train("photos/", method="gaussian", epochs=5)`. With `out`, the best model so far is always on disk, and `resume`
    goes on where a stopped run ended. `run_training` also returns the history.
    """
    images = pictures if isinstance(pictures, ImageSet) else data.load(pictures)
    folder = None if out is None else Path(out)
    if recipe is None:
        source = images.name if isinstance(pictures, ImageSet) else str(pictures)
        begun = stored_recipe(folder) if resume and folder else None
        recipe = begun or (recipe_for(source) if NETWORK & settings.keys() else fitting_recipe(source, images))
    elif not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return run_training(images, recipe.but(**settings), out=folder, resume=resume, device=device, tell=tell).embedder


@remembering()
def run_training(
    images: ImageSet,
    recipe: Recipe,
    *,
    out: Path | None = None,
    resume: bool = False,
    strict: bool = False,
    device: torch.device | str = "cpu",
    loss: nn.Module | None = None,
    start: Embedder | None = None,
    tell: Callable[[Event], None] = lambda event: None,
) -> Trained:
    """Train an embedder on labelled pictures by a recipe; `train` is the short way.

    `loss` replaces the recipe's own: any module that takes (Embedding, labels); `OnMeans(loss, miner)` makes one of any
    pytorch-metric-learning loss. With `out`, the best model so far is always on disk, and a run that was stopped goes
    on bit for bit from its last whole epoch. Validation pictures come out of `images`, never out of a test set.

    With `start`, the backbone and the means of that embedder are kept as they are, bit for bit, and only scales are
    learned: uncertainty that costs no accuracy. The card names the embedder it came from.
    """
    pretrained = PRETRAINED.get(recipe.backbone)
    if pretrained and start is None:
        pretrained.require()  # before pictures are read for nothing
    torch.manual_seed(recipe.seed)
    spec = InputSpec(recipe.height, recipe.width, recipe.channels, recipe.pixel_mean, recipe.pixel_std)
    decoded = read_pictures(images, spec, strict=strict, tell=tell)
    rows, held = validation_split(decoded.images, share=recipe.validation_share, seed=recipe.seed)
    classes, labels = np.unique([str(decoded.images.labels[row]) for row in rows], return_inverse=True)
    validation = Validation(decoded.pixels[held], [str(decoded.images.labels[row]) for row in held], spec)

    method = method_named(recipe.method)
    make = method.loss if start is None else scales_alone(recipe.method)
    learner: nn.Module  # the part of the embedder that is trained
    if start is None:
        new = Embedder(recipe.backbone, method.head, spec, dim=recipe.dim)
        start_backbone(recipe.backbone, new.backbone)
        learner = embedder = method.posterior(new, len(held))
    else:
        embedder, learner = frozen_from(start, recipe, spec, head=method.head)
    embedder.to(device)
    shown = SeenContent(content_hashes(decoded.pixels), complete=True)
    embedder.seen = shown if start is None else start.seen | shown
    embedder.card |= {
        "recipe": recipe.model_dump(),
        "classes": classes.tolist(),
        "data": images.name,
        "pictures": {"training": len(rows), "validation": len(held), "skipped": len(decoded.skipped)},
    }
    if pretrained:
        embedder.card["pretrained"] = pretrained.card
    if loss is None:
        width = feature_count(embedder.backbone, (spec.channels, spec.height, spec.width))
        loss = make(Setting(recipe, classes=len(classes), features=width))
    goal = method.around(loss, embedder, len(rows)).to(device)
    optimizer = torch.optim.Adam([*learner.parameters(), *goal.parameters()], lr=recipe.learning_rate)
    state = State(embedder, goal, optimizer, recipe)
    if resume and out is not None:
        state.restore(out)

    batches = BalancedBatches(
        labels,
        classes=min(recipe.classes_per_batch, len(classes)),
        per_class=recipe.pictures_per_class,
        seed=recipe.seed,
    )

    def show(chosen: np.ndarray, *, step: int) -> torch.Tensor:
        """Pictures as this step sees them; randomness depends on the step alone, so that a resumed run agrees."""
        if not recipe.augment:
            return decoded.pixels[chosen]
        rng = np.random.default_rng([recipe.seed, 2, state.epoch, step])
        return torch.from_numpy(data.augment(decoded.pixels[chosen].numpy(), recipe.augment, rng=rng))

    if not recipe.augment and not state.finished:
        compute_features(embedder, decoded.pixels, tell=tell)
    if start is not None and state.epoch == 0:
        batch = next(batches.epoch(0))
        settle_scales(embedder, spec.normalise(decoded.pixels[rows[batch]]), torch.from_numpy(labels[batch]))
    while not state.finished:
        learner.train()
        total = 0.0
        for step, batch in enumerate(batches.epoch(state.epoch), 1):
            progress = (state.epoch + (step - 1) / len(batches)) / recipe.epochs
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe.schedule, recipe.learning_rate, progress=progress)
            pixels = spec.normalise(show(rows[batch], step=step).to(device))
            target = torch.from_numpy(labels[batch]).to(device)
            features = embedder.backbone(pixels)
            embedding = finite(embedder.head, features)
            value = batch_loss(goal, embedding, target, features)
            if not torch.isfinite(value):
                raise TrainingError(
                    f"the loss became {value.item()} in epoch {state.epoch + 1}, batch {step}",
                    fix=f"lower learning_rate (now {recipe.learning_rate:g}); the last whole epoch is kept",
                )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item()
            tell(Step(state.epoch + 1, recipe.epochs, step, len(batches), value.item()))

        method.settle(embedder, validation.pixels)
        held_out = validation.encode(embedder)
        validation.check_not_collapsed(held_out, recipe)
        done = Epoch(state.epoch + 1, total / len(batches), validation.recall_at_1(held_out))
        if state.finish(done):
            embedder.card |= {"validation": {"epoch": done.epoch, "recall_at_1": done.recall_at_1}}
            embedder.card |= {"matcher": validation.matcher(held_out), "link": learned_link(loss)}
            if out is not None:
                embedder.save(out)
        if out is not None:
            state.save(out)
        tell(done)

    validation.check_learned(state.history, recipe)
    embedder.load_state_dict(state.best)
    finished = method.finish(embedder.eval(), validation.pixels, torch.from_numpy(validation.labels))
    if finished is not embedder:
        finished.seen = embedder.seen  # the held-out pictures that finished it are among these
        finished.card["matcher"] = validation.matcher(validation.encode(finished))
        if out is not None:
            finished.save(out)
    return Trained(finished.eval(), tuple(state.history), decoded.skipped)
