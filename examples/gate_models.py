"""Ask an expensive model only where a cheap one is unsure: how right that is, and what it costs.

    python examples/gate_models.py

The cheap model sees digits of four by four pixels, the expensive one all eight by eight. Some digits set the gate,
others judge it. The last number is the accuracy with the gate.
"""

import numpy as np

from howsure import data, recipe_for
from howsure.embeddings import Embedding, point_estimates
from howsure.neighbours import neighbours
from howsure.recipe import Recipe
from howsure.tasks.gating import gate_curve, gate_for
from howsure.training import run_training

CHEAP = recipe_for("digits").but(backbone="mlp", method="gaussian", height=4, width=4, epochs=12)
EXPENSIVE = recipe_for("digits").but(epochs=6)


def encoded(recipe: Recipe, test: data.ImageSet) -> tuple[Embedding, np.ndarray]:
    """Embeddings of a model, and whether the nearest other picture is of the same class."""
    embedding = run_training(data.load("digits:train"), recipe).embedder.encode(test)
    labels, points = np.array(test.labels), point_estimates(embedding)
    nearest = neighbours(points, points, leave_one_out=True, depth=1).positions[:, 0]
    return embedding, labels[nearest] == labels


def main() -> float:
    """A curve of accuracy against the share that is asked twice, and one gate."""
    test = data.load("digits:test")
    (embedding, cheap), (_, expensive) = encoded(CHEAP, test), encoded(EXPENSIVE, test)
    uncertainty = embedding.uncertainty.numpy()
    curve = gate_curve(uncertainty, cheap, expensive)
    for share in (0.0, 0.1, 0.2, 0.3, 0.5, 1.0):
        print(f"{share:4.0%} asked twice: accuracy {curve.at(share):.3f}")
    print(f"above asking at random: {curve.gain:.3f} on the mean")

    sets = np.random.default_rng(0).permutation(len(test)) % 2 == 0
    threshold = gate_for(uncertainty[sets], share=0.5)
    asked = uncertainty[~sets] > threshold
    print(f"gate at {threshold:.3g}: {asked.mean():.0%} of other digits asked twice")
    return float(np.where(asked, expensive[~sets], cheap[~sets]).mean())


if __name__ == "__main__":
    print(f"accuracy {main():.3f}")
