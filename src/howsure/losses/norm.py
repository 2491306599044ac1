"""Classical training of vectors of free length; afterwards the length is their confidence."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from howsure.embeddings import Embedding, Point, VonMisesFisher
from howsure.losses.checks import check_classes, check_dim, check_labels
from howsure.losses.classical import OnMeans


class NormCrossEntropy(nn.Module):
    """Cross-entropy of a linear classifier W z + b on the free vector z = concentration · direction.

    The logits grow with |z|, so a network makes z long where it is right and short where it may be wrong.
    """

    def __init__(self, classes: int, dim: int):
        super().__init__()
        check_classes(classes)
        self.classifier = nn.Linear(dim, classes)

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        z = free_vectors(embedding)
        check_labels(labels, items=len(z), classes=self.classifier.out_features)
        check_dim(embedding, self.classifier.in_features, like="the classifier has")
        return F.cross_entropy(self.classifier(z), labels)


class NormTriplet(nn.Module):
    """Triplet loss max(0, |z - z⁺| - |z - z⁻| + margin) over all triplets, z = concentration · direction.

    Nothing fixes the length of z, so only long vectors of different directions have the margin.
    """

    def __init__(self, *, margin: float = 1.0):
        super().__init__()
        from pytorch_metric_learning import distances, losses

        free = distances.LpDistance(normalize_embeddings=False)
        self.triplet = OnMeans(losses.TripletMarginLoss(margin=margin, distance=free))

    def forward(self, embedding: Embedding, labels: Tensor) -> Tensor:
        return self.triplet(Point(free_vectors(embedding)), labels)


def free_vectors(embedding: Embedding) -> Tensor:
    """z = concentration · direction, (N, D): what the norm head was given before it took length and direction apart."""
    vmf = VonMisesFisher.require(embedding, asker="norm loss").checked()
    return vmf.concentration[:, None] * vmf.direction
