"""What we believe about items: one base, one file a family."""

from howsure.embeddings.base import Embedding, cat, restore
from howsure.embeddings.draws import Draws
from howsure.embeddings.gaussian import Gaussian
from howsure.embeddings.point import Point

__all__ = ["Draws", "Embedding", "Gaussian", "Point", "cat", "restore"]
