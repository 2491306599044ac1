import numpy as np
import pytest
import torch

from howsure import Gaussian, Point
from howsure.decide import Answer, Finding, Match
from howsure.decide.outcomes import Tally, Verdicts, certified_threshold, nearest, rows_of, verdicts_of


def test_nearest_agrees_with_a_loop() -> None:
    generator = torch.manual_seed(0)
    query, gallery = (torch.nn.functional.normalize(torch.randn(n, 4, generator=generator), dim=1) for n in (9, 20))
    names = [str(i % 3) for i in range(20)]
    found = nearest(Point(query), Point(gallery), names)
    for row in range(9):
        scored = sorted(((float(query[row] @ gallery[i]), names[i]) for i in range(20)), reverse=True)
        assert found.identity[row] == scored[0][1]
        assert found.similarity[row] == pytest.approx(scored[0][0], abs=1e-6)
        second = next(value for value, name in scored if name != scored[0][1])
        assert found.margin[row] == pytest.approx(scored[0][0] - second, abs=1e-6)


def test_nearest_ignores_uncertainty() -> None:
    locations = torch.eye(3)
    vague = Gaussian(locations, torch.tensor([[9.0], [0.1], [0.1]]))
    assert nearest(vague, vague, ["a", "b", "c"]).identity.tolist() == ["a", "b", "c"]


def finding(kind: str, label: str) -> Finding:
    return Finding(Answer(kind, None, 0.5), 0.0, None, (Match("i", label, 0.9, 0.1),), True)  # type: ignore[arg-type]


def test_what_counts_as_wrong() -> None:
    cases = [
        ("match", "1", "1", False, (True, False)),
        ("match", "2", "1", False, (True, True)),
        ("match", "8", "8", True, (True, True)),  # named, although no gallery has it
        ("unknown", "2", "8", True, (True, False)),
        ("unknown", "1", "1", False, (True, True)),
        ("not_sure", "2", "1", False, (False, False)),
    ]
    given = verdicts_of(
        [finding(kind, best) for kind, best, *_ in cases],
        [case[2] for case in cases],
        unknown=[case[3] for case in cases],
    )
    assert list(zip(given.answered.tolist(), given.wrong.tolist(), strict=True)) == [case[4] for case in cases]


def test_rows_add_up() -> None:
    verdicts = Verdicts(np.array([True, True, False, True]), np.array([True, False, False, False]))
    (row,) = rows_of({"it": verdicts}, ["known", "known", "known", "odd"])
    assert row.tallies == {"known": Tally(3, 2, 1), "odd": Tally(1, 1, 0)}
    assert row.over("known", "odd") == Tally(4, 3, 1)
    assert row.over("known").coverage == pytest.approx(2 / 3)
    assert row.over("known").error == 0.5
    assert Tally(3, 0, 0).error is None


def test_a_certified_threshold_keeps_its_promise() -> None:
    broken = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        uncertainty = rng.random(600)
        limit = certified_threshold(
            uncertainty, rng.random(600) < uncertainty**2, max_error=0.05, confidence=0.9, seed=seed
        )
        # Below t, the error rate of this world is t² / 3.
        broken += limit is not None and limit**2 / 3 > 0.05
    assert broken <= 60 * 0.1 + 3 * (60 * 0.1 * 0.9) ** 0.5


def test_a_certified_threshold_answers_what_it_can() -> None:
    uncertainty = np.random.default_rng(0).random(600)
    wide = certified_threshold(uncertainty, uncertainty > 0.9, max_error=0.05, confidence=0.95, seed=0)
    assert wide is not None
    assert wide > 0.85
    assert certified_threshold(uncertainty, np.ones(600, bool), max_error=0.05, confidence=0.95, seed=0) is None
