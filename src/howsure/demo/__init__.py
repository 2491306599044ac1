"""The whole workflow once, on handwritten digits: train, index, calibrate, search, count errors, and report.

Eights and nines are held out of training: they are the unknowns. The test also has corrupted pictures of known digits,
which no guarantee covers. Everything is left on disk, so that each step can be repeated by hand.
"""

from howsure.demo.report import write_report
from howsure.demo.steps import CONFIDENCE, HOWSURE, MAX_ERROR, NEAREST, PROMISED, Demo, Query, run
from howsure.demo.text import answer_text, chance, examples, headline, promise, share

__all__ = [
    "CONFIDENCE",
    "HOWSURE",
    "MAX_ERROR",
    "NEAREST",
    "PROMISED",
    "Demo",
    "Query",
    "answer_text",
    "chance",
    "examples",
    "headline",
    "promise",
    "run",
    "share",
    "write_report",
]
