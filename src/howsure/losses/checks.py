"""What losses ask of their classes, labels and embeddings, checked in one way."""

from __future__ import annotations

import torch
from torch import Tensor

from howsure.embeddings import Embedding
from howsure.errors import InputError


def check_classes(classes: int) -> None:
    """At least two."""
    if classes < 2:
        raise InputError("classes", expected="2 or more", got=str(classes), fix="add pictures of another class")


def check_labels(labels: Tensor, *, items: int, classes: int) -> None:
    """One whole number below `classes` for every item, and at least one item."""
    if labels.shape != (items,) or labels.is_floating_point() or not items:
        raise InputError(
            "labels",
            expected=f"whole numbers, ({items or 'at least 1'},)",
            got=f"{labels.dtype}, {tuple(labels.shape)}",
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError("labels", expected=f"0 to {classes - 1}", got=f"{int(labels.min())} to {int(labels.max())}")


def check_dim(embedding: Embedding, dim: int, *, like: str) -> None:
    """As many dimensions as the loss was made for."""
    if embedding.dim != dim:
        raise InputError("dimension", expected=f"{dim}, as {like}", got=str(embedding.dim))


def check_variance(variance: Tensor, family: str, *, loss: str, head: str) -> None:
    """Above 0 everywhere."""
    if not (variance > 0).all():
        raise InputError(loss, expected="embeddings with some variance", got=family, fix=f"use the {head} head")


def check_both(same: Tensor) -> None:
    """Matching and different pairs."""
    if len(same) == 0 or same.all() or not same.any():
        raise InputError(
            "batch", expected="matching and different pairs", got="one kind only", fix="use class-balanced batches"
        )


def all_pairs(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First item, second item, and whether they are of one class: every pair of a batch once."""
    first, second = torch.triu_indices(len(labels), len(labels), offset=1, device=labels.device)
    return first, second, labels[first] == labels[second]
