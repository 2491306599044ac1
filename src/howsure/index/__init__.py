"""A container of embeddings: add, remove, search, and nothing acknowledged is ever lost."""

from howsure.index.archive import export_gallery, import_gallery
from howsure.index.connect import connect
from howsure.index.index import Index
from howsure.index.items import Item
from howsure.index.local.index import LocalIndex
from howsure.index.matches import Matches
from howsure.index.remote.index import RemoteIndex

__all__ = ["Index", "Item", "LocalIndex", "Matches", "RemoteIndex", "connect", "export_gallery", "import_gallery"]
