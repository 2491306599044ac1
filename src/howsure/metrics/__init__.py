"""Pure functions on arrays; every number names its convention.

They take whatever `numpy.asarray` takes, CPU tensors included, and know nothing of embeddings or models.
"""

from howsure.metrics.calibration import Binning, Reliability, brier, ece, nll, reliability
from howsure.metrics.clustering import Agreement, b_cubed, pairwise_f
from howsure.metrics.detection import Auprc, AveragePrecision, auprc_trapezoid, auroc, average_precision, fpr_at_tpr
from howsure.metrics.lam import lam_ausc, lam_ece
from howsure.metrics.ranking import majority, rank, relevance, relevant_count
from howsure.metrics.retrieval import Denominator, Empty, map_at_k, map_at_r, recall_at_k
from howsure.metrics.selective import RiskCoverage, accuracy_at_coverage, augrc, aurc, e_aurc, risk_coverage
from howsure.metrics.uncertainty import crop_test, kendall_over_bins, kendall_over_bins_ap, r_auroc
from howsure.metrics.verification import RocCurve, equal_error_rate, roc_curve, tar_at_far, verification_ap

__all__ = [
    "Agreement",
    "Auprc",
    "AveragePrecision",
    "Binning",
    "Denominator",
    "Empty",
    "Reliability",
    "RiskCoverage",
    "RocCurve",
    "accuracy_at_coverage",
    "augrc",
    "auprc_trapezoid",
    "aurc",
    "auroc",
    "average_precision",
    "b_cubed",
    "brier",
    "crop_test",
    "e_aurc",
    "ece",
    "equal_error_rate",
    "fpr_at_tpr",
    "kendall_over_bins",
    "kendall_over_bins_ap",
    "lam_ausc",
    "lam_ece",
    "majority",
    "map_at_k",
    "map_at_r",
    "nll",
    "pairwise_f",
    "r_auroc",
    "rank",
    "recall_at_k",
    "relevance",
    "relevant_count",
    "reliability",
    "risk_coverage",
    "roc_curve",
    "tar_at_far",
    "verification_ap",
]
