"""The diagonal of the last layer's curvature one pair at a time: what the published code of the method does.

Written from the formulas: for each pair the Jacobians of its two embeddings in the weights of the layer, (D, D·M), and

    h += diag(J_a^T H_aa J_a + 2 J_a^T H_ab J_b + J_b^T H_bb J_b)

with H the Gauss-Newton matrix of |u_a - u_b|²/2, u = z/|z|, less of it for a pair of two classes.
"""

import torch
from torch import Tensor


def diagonal(features: Tensor, z: Tensor, pairs: Tensor, signs: Tensor) -> Tensor:
    """(D, M) from features (B, M), embeddings before normalisation (B, D), pairs (n, 2) and their signs (n,)."""
    dim = z.shape[1]
    eye, total = torch.eye(dim), torch.zeros(dim * features.shape[1])
    for (a, b), sign in zip(pairs.tolist(), signs.tolist(), strict=True):
        near, far = (torch.kron(eye, features[row][None]) for row in (a, b))  # dz/dW, (D, D·M)
        steep, other = (_to_sphere(z[row]) for row in (a, b))
        for left, block, right in (
            (near, steep @ steep, near),
            (near, -2 * steep @ other, far),
            (far, other @ other, far),
        ):
            total += sign * (left * (block @ right)).sum(0)
    return total.view(dim, -1)


def _to_sphere(z: Tensor) -> Tensor:
    """du/dz = (I - u u^T)/|z|."""
    length = z.norm()
    return (torch.eye(len(z)) - torch.outer(z, z) / length**2) / length
