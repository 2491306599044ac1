"""A container of embeddings: add, remove, search, and nothing acknowledged is ever lost."""

from howsure.index.gallery import Gallery
from howsure.index.index import Index
from howsure.index.items import Item
from howsure.index.matches import Matches
from howsure.index.moving import export_gallery, import_gallery
from howsure.index.server import ServerIndex
from howsure.index.url import connect

__all__ = ["Gallery", "Index", "Item", "Matches", "ServerIndex", "connect", "export_gallery", "import_gallery"]
