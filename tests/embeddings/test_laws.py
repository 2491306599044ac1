from collections.abc import Callable

import pytest

from cases import CASES
from howsure.embeddings import Embedding
from howsure.embeddings.base import FAMILIES
from laws import LAWS


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_law(make: Callable[[], Embedding], law: Callable[[Embedding], None]) -> None:
    law(make())


def test_every_family_has_a_case() -> None:
    assert {make().name for make in CASES.values()} == set(FAMILIES)
