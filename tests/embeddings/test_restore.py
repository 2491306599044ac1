import numpy as np
import pytest

from howsure.embeddings import restore
from howsure.errors import InputError


def test_unknown_family_names_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        restore("gausian", {})
    assert "gaussian" in caught.value.expected
    assert "gausian" in caught.value.got


@pytest.mark.parametrize("family", ["draws", "draws:", "point:gaussian", "draws:draws:point", "draws:nothing", ""])
def test_malformed_family(family: str) -> None:
    with pytest.raises(InputError):
        restore(family, {"location": np.zeros((2, 3, 4)), "scale": np.ones((2, 3, 1))})


def test_whole_numbers_are_no_embedding() -> None:
    with pytest.raises(InputError, match="floating-point"):
        restore("point", {"location": np.zeros((2, 3), int)})


def test_restored_embedding_does_not_write_to_a_read_only_array() -> None:
    source = np.zeros((2, 3))
    source.flags.writeable = False
    restore("point", {"location": source}).mean.add_(1)
    assert not source.any()
