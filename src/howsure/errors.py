"""Every error a user can cause, with one form: what was expected, what came, what to do.

HowsureError
├── InputError          an argument: shape, type, value, device
├── DataError           pictures, folders, tables and data sets
├── ModelError          a model directory: missing, damaged, of another version
├── TrainingError       training cannot go on: collapsed embedding, NaN, nothing to learn from
├── CalibrationError    held-out data cannot support what is asked
└── GalleryError        an index, on disk or on a server: missing, damaged, of another model
    ├── GalleryLockedError         another process is writing to it
    └── GalleryUnavailableError    its server cannot answer for all of it now
"""


class HowsureError(Exception):
    """The root: `except HowsureError` catches everything that howsure raises on purpose.

    >>> raise InputError("scale", expected="(2, 3) or (2, 1)", got="(2, 4)", fix="give one scale per dimension, or one")
    Traceback (most recent call last):
    howsure.errors.InputError: scale: expected (2, 3) or (2, 1), got (2, 4); give one scale per dimension, or one
    """

    def __init__(self, what: str, *, expected: str = "", got: str = "", fix: str = ""):
        self.what, self.expected, self.got, self.fix = what, expected, got, fix
        contrast = ", ".join(
            part for part in (f"expected {expected}" * bool(expected), f"got {got}" * bool(got)) if part
        )
        message = f"{what}: {contrast}" if contrast else what
        super().__init__(f"{message}; {fix}" if fix else message)


class InputError(HowsureError, ValueError):
    """An argument is not what the function takes."""


class DataError(HowsureError):
    """Pictures, folders, tables or data sets cannot be used as they are."""


class ModelError(HowsureError):
    """A model directory is missing, damaged or of another version."""


class TrainingError(HowsureError):
    """Training cannot go on."""


class CalibrationError(HowsureError):
    """The held-out data cannot support what is asked of them."""


class GalleryError(HowsureError):
    """An index on disk is missing, damaged or belongs to another model."""


class GalleryLockedError(GalleryError):
    """Another process is writing to the index."""


class GalleryUnavailableError(GalleryError):
    """The server of the index is out of reach, or reaches a part of it only; trying again may help."""
