"""A container of embeddings: add, remove, search, and nothing acknowledged is ever lost."""

from howsure.index.index import Index
from howsure.index.matches import Matches
from howsure.index.store import Item

__all__ = ["Index", "Item", "Matches"]
