"""Cluster pictures without labels, the most certain first.

    python examples/cluster_pictures.py

One half of the digits trains a model. Of the other half some have labels, which say how near is near enough; the rest
is clustered, without confidence and with it. The last number is B-cubed precision: of the pictures in a
cluster, how many share a class.
"""

from howsure import data, recipe_for
from howsure.metrics import b_cubed, pairwise_f
from howsure.tasks.clustering import cluster_tree
from howsure.training import run_training


def main() -> float:
    """Tell how well clusters agree with labels that they have not seen."""
    embedder = run_training(data.load("digits:train"), recipe_for("digits").but(method="gaussian", epochs=6)).embedder
    known, unknown = data.split(data.load("digits:test"), [0.5, 0.5], seed=0)
    labelled, new = embedder.encode(known), embedder.encode(unknown)
    for weighted in (False, True):
        near = cluster_tree(labelled, weighted=weighted).best_cut(known.labels)
        clusters = cluster_tree(new, weighted=weighted).cut(near)
        agreement = b_cubed(unknown.labels, clusters)
        print(f"{'with' if weighted else 'without'} confidence: {clusters.max() + 1} clusters,", end=" ")
        print(f"B-cubed F {agreement.f:.3f}, pairwise F {pairwise_f(unknown.labels, clusters).f:.3f}")
    return agreement.precision


if __name__ == "__main__":
    print(f"precision {main():.3f}")
