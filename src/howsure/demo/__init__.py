"""The whole way once, on handwritten digits: train, index, calibrate, ask, count what went wrong, and report.

Eights and nines are never shown to the model: they are the unknowns. The test also asks about corrupted pictures of
known digits, which no promise covers. Everything is left on disk, so that each step can be repeated by hand.
"""

from howsure.demo.report import write_report
from howsure.demo.steps import CONFIDENCE, HOWSURE, MAX_ERROR, NEAREST, PROMISED, Demo, Query, run
from howsure.demo.text import chance, examples, headline, promise, said, share

__all__ = [
    "CONFIDENCE",
    "HOWSURE",
    "MAX_ERROR",
    "NEAREST",
    "PROMISED",
    "Demo",
    "Query",
    "chance",
    "examples",
    "headline",
    "promise",
    "run",
    "said",
    "share",
    "write_report",
]
