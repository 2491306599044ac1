"""Write vmf_table.json: exact values to compare with, from 50-digit arithmetic.

python tests/numerics/make_vmf_table.py
"""

import json
from pathlib import Path

import mpmath as mp

DIMS = (2, 3, 5, 10, 42, 128, 512, 1024, 2048, 4096)
CONCENTRATIONS = [10 ** (-3 + 10 * i / 15) for i in range(16)]  # 1e-3 .. 1e7


def exact(dim: int, concentration: float) -> dict[str, float]:
    nu, k = mp.mpf(dim) / 2 - 1, mp.mpf(concentration)
    here, above = (mp.besseli(order, k, maxterms=10**7) for order in (nu, nu + 1))
    scaled = -(mp.mpf(dim) / 2) * mp.log(2 * mp.pi) - mp.log(here) + nu * mp.log(k) + k
    a = above / here
    return {
        "dim": dim,
        "concentration": concentration,
        "scaled_log_normalizer": float(scaled),
        "log_normalizer": float(scaled - k),
        "mean_resultant": float(a),
        "mean_resultant_gap": float(1 - a),
        "slope": float(1 - a**2 - (dim - 1) * a / k),
    }


if __name__ == "__main__":
    mp.mp.dps = 50
    rows = [exact(dim, k) for dim in DIMS for k in CONCENTRATIONS]
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (Path(__file__).parent / "vmf_table.json").write_text(text)
