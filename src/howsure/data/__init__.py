"""Pictures in: from a folder, a table or the name of a set to labelled pictures, decoded safely.

`load` finds them, `stream` and `pixels` decode them and say which were skipped and why, `split` and
`hold_out_classes` part them, `BalancedBatches` draws them for training.
"""

from howsure.data.augment import AUGMENTATIONS, augment
from howsure.data.batches import BalancedBatches
from howsure.data.corruptions import CORRUPTIONS, corrupt
from howsure.data.decoding import decode
from howsure.data.images import ArrayImages, FileImages, ImageSet, Skipped
from howsure.data.input_spec import InputSpec
from howsure.data.loading import load, loaded
from howsure.data.splitting import hold_out_classes, split, validation_split
from howsure.data.streaming import none_readable, pixels, stream

__all__ = [
    "AUGMENTATIONS",
    "CORRUPTIONS",
    "ArrayImages",
    "BalancedBatches",
    "FileImages",
    "ImageSet",
    "InputSpec",
    "Skipped",
    "augment",
    "corrupt",
    "decode",
    "hold_out_classes",
    "load",
    "loaded",
    "none_readable",
    "pixels",
    "split",
    "stream",
    "validation_split",
]
