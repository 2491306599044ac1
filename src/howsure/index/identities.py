"""From pictures to identities: one embedding for all pictures of a label, and the few pictures that show it best."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from howsure.compare import rms_distance
from howsure.embeddings import Embedding
from howsure.errors import InputError
from howsure.index.index import Index


def identities(gallery: Index) -> tuple[list[str], Embedding]:
    """The labels of a gallery, in the order in which they came, and the fused embedding of each.

    Items without a label are left out. They make a gallery of their own, in which a label is found once:
    `labels, fused = identities(index)`, then `LocalIndex.create(path).add(labels, fused, labels=labels)`.
    """
    ids, embedding = gallery.embedding()
    labels = gallery.labels(ids)
    named = [position for position, label in enumerate(labels) if label is not None]
    if not named:
        raise InputError("gallery", expected="items with labels", got=f"{len(ids)} without", fix="add them with labels")
    names, groups = _groups([labels[position] for position in named])
    return [str(name) for name in names], embedding[named].fused(groups)


def best_pictures(embedding: Embedding, labels: Sequence[object], k: int) -> list[int]:
    """The positions of the k pictures of each identity that show it best, in the order of the embedding.

    Chosen one after the other: the picture that brings the others of its identity nearest, by `rms_distance`, to one
    of those chosen. An unsure picture is far from all, and a second view of what is shown already brings nothing.
    """
    if k < 1:
        raise InputError("k", expected="1 or more", got=str(k))
    if len(labels) != len(embedding):
        raise InputError("labels", expected=f"{len(embedding)}, one for each item", got=str(len(labels)))
    names, groups = _groups(labels)
    embedding = embedding.to("cpu", torch.float64)
    chosen = []
    for group in range(len(names)):
        members = (groups == group).nonzero()[:, 0]
        chosen += members[_greedy(rms_distance(embedding[members], embedding[members]), k)].tolist()
    return sorted(chosen)


def _greedy(distance: Tensor, k: int) -> list[int]:
    nearest = torch.full((len(distance),), torch.inf, dtype=distance.dtype)
    chosen: list[int] = []
    for _ in range(min(k, len(distance))):
        # Row i: how far the others would be from the nearest chosen one if i were chosen too.
        total = torch.minimum(distance, nearest).sum(1)
        total[chosen] = torch.inf
        best = int(total.argmin())
        chosen.append(best)
        nearest = torch.minimum(nearest, distance[best])
    return chosen


def _groups(labels: Sequence[object]) -> tuple[list[object], Tensor]:
    """The different labels in order, and the number of that of each item."""
    groups = {label: group for group, label in enumerate(dict.fromkeys(labels))}
    return list(groups), torch.tensor([groups[label] for label in labels], dtype=torch.long)
