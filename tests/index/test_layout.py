"""What a layout says of a family is so of its items."""

import pytest
import torch

from cases import CASES
from howsure.index.layout import Layout


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_it_knows_its_family(case, dtype):
    embedding = CASES[case]()
    layout = Layout.from_embedding(embedding.to(dtype=dtype))
    assert layout.mean_is_point_estimate == torch.equal(embedding.mean, embedding.point_estimate)
    assert layout.has_variance == any(draw.variance.any() for draw in embedding.by_draw())
