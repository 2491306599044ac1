"""Networks that others trained, by name: one file a family."""

from howsure.backbones.pretrained.efficientnet_lite import LITE
from howsure.backbones.pretrained.weights import Pretrained

__all__ = ["PRETRAINED", "REFERENCES", "Pretrained"]

PRETRAINED: dict[str, Pretrained] = {entry.name: entry for entry in LITE}
REFERENCES = {
    "pets": "740 photographs of 37 breeds of cats and dogs",
    "birds": "1,000 photographs of CUB-200-2011",
}  # recall@1 of the nearest other picture by cosine, with the features as they are
