"""Which pictures to label next: twenty that are worth more than twenty at random.

    python examples/label_next.py

Digits without labels are listed in the order in which labels would help. Then each other one gets the label of the
nearest of the twenty. The last number is how often that is right.
"""

import numpy as np

from howsure import data, recipe_for, rms_distance
from howsure.embeddings import Embedding, point_estimates
from howsure.tasks.labelling import label_next
from howsure.training import run_training

COUNT = 20


def accuracy(embedding: Embedding, labels: np.ndarray, chosen: list[int]) -> float:
    """Of the pictures that were not chosen, how many have the label of the nearest chosen one?"""
    rest = np.setdiff1d(np.arange(len(labels)), chosen)
    nearest = rms_distance(point_estimates(embedding[rest]), point_estimates(embedding[chosen])).argmin(1).numpy()
    return float((labels[chosen][nearest] == labels[rest]).mean())


def main() -> float:
    """Compare the list with labels at random."""
    embedder = run_training(data.load("digits:train"), recipe_for("digits").but(method="gaussian", epochs=6)).embedder
    new = data.load("digits:test")
    embedding, labels = embedder.encode(new), np.array(new.labels)

    wanted = label_next(embedding, COUNT)
    for one in wanted[:3]:
        print(f"{new.ids[one.row]}: {one.reason}, more ambiguous than {one.ambiguity:.0%} of all")
    lottery = [np.random.default_rng(seed).choice(len(labels), COUNT, replace=False).tolist() for seed in range(20)]
    print(
        f"{COUNT} labels at random: accuracy {np.mean([accuracy(embedding, labels, chosen) for chosen in lottery]):.3f}"
    )
    return accuracy(embedding, labels, [one.row for one in wanted])


if __name__ == "__main__":
    print(f"{COUNT} listed labels: accuracy {main():.3f}")
