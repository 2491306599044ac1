"""From scores to probabilities, and from a tolerated error rate to a policy with a guarantee.

The guarantee: with the stated confidence over the held-out queries, the error rate among answered future queries is
at most `max_error`, as long as they come like the held-out ones and model and gallery stay as they are. It comes from
exact binomial tests on thresholds fixed without looking at the queries that test them (fixed-sequence testing).
"""

from howsure.calibrate.held_out import FIT_SHARE, data_hash
from howsure.calibrate.policy import calibrate
from howsure.numerics.certify import Certified, certify, least_count, widest_threshold

__all__ = ["FIT_SHARE", "Certified", "calibrate", "certify", "data_hash", "least_count", "widest_threshold"]
