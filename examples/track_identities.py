"""Follow who is who from frame to frame, and leave out what is too poor to tell.

    python examples/track_identities.py

A film of digits: five of them, in any order, another picture of each in every frame, and one in five very noisy. Who
goes on under another number has been lost. The last number is B-cubed precision of the tracks.
"""

import numpy as np
import torch

from howsure import Matcher, data, recipe_for
from howsure.data.corruptions import corrupted_set, corruption_named
from howsure.metrics import b_cubed
from howsure.tasks.tracking import UNASSIGNED, Tracker, identity_switches
from howsure.training import run_training

CAST, FRAMES, NOISY = 5, 30, 0.2


def main() -> float:
    """Two trackers watch the same film; one listens to confidence."""
    training, test = data.load("digits:train"), data.load("digits:test")
    embedder = run_training(training, recipe_for("digits").but(method="gaussian", epochs=6)).embedder
    clean, noisy = embedder.encode(test), embedder.encode(corrupted_set(test, corruption_named("noise:5")))
    labels, matcher = np.array(test.labels), Matcher(**embedder.card["matcher"])

    rng = np.random.default_rng(0)
    film = []
    for _ in range(FRAMES):
        rows = [rng.choice(np.flatnonzero(labels == digit)) for digit in rng.permutation(np.unique(labels)[:CAST])]
        poor = torch.from_numpy(rng.random(CAST) < NOISY)[:, None]
        fields = zip(clean[rows].tensors().items(), noisy[rows].tensors().values(), strict=True)
        mixed = {name: torch.where(poor[:, 0] if a.ndim == 1 else poor, b, a) for (name, a), b in fields}
        film.append((labels[rows], clean[rows].rebuild(mixed)))

    uncertainty = clean.uncertainty
    for weighted in (False, True):
        tracker = Tracker(matcher, float(uncertainty.median()), float(uncertainty.quantile(0.95)), weighted=weighted)
        tracks = [tracker.see(frame) for _, frame in film]
        names, found = [names for names, _ in film], np.concatenate(tracks)
        lost = identity_switches(names, tracks)
        nobody = found == UNASSIGNED
        print(
            f"{'with' if weighted else 'without'} confidence: {lost} switches, {nobody.sum()} of {len(found)} left out"
        )
    return b_cubed(np.concatenate(names)[~nobody], found[~nobody]).precision


if __name__ == "__main__":
    print(f"precision {main():.3f}")
