"""A container of embeddings: add, remove, search, and nothing acknowledged is ever lost."""

from howsure.index.index import Index
from howsure.index.items import Item
from howsure.index.matches import Matches

__all__ = ["Index", "Item", "Matches"]
