"""From held-out embeddings to a policy, in a simulated world where the future can be asked as often as we like."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from howsure.decide import DEPTH, Policy, calibrate, decide
from howsure.decide.held_out import data_hash
from howsure.decide.searched import Searched, searched
from howsure.embeddings import Gaussian, NovelGaussian, Point
from howsure.errors import CalibrationError, InputError
from howsure.neighbours import Neighbours

IDENTITIES, UNKNOWNS, DIM, EACH = 12, 4, 4, 30
CENTRES = np.random.default_rng(0).normal(size=(IDENTITIES + UNKNOWNS, DIM))
NAMES = np.array([f"id{i}" for i in range(IDENTITIES + UNKNOWNS)], dtype=object)


@dataclass(frozen=True)
class Pictures:
    embedding: Gaussian
    labels: list[str]

    def __getitem__(self, rows: np.ndarray) -> "Pictures":
        return Pictures(self.embedding[rows], [self.labels[row] for row in rows])


def pictures(n: int, rng: np.random.Generator, *, unknowns: float = 0.0) -> Pictures:
    """Some pictures are blurred: farther from their centre, and they say so."""
    unknown = rng.random(n) < unknowns
    who = np.where(unknown, rng.integers(IDENTITIES, IDENTITIES + UNKNOWNS, n), rng.integers(0, IDENTITIES, n))
    blur = rng.uniform(0.1, 0.7, (n, 1))
    location = CENTRES[who] + blur * rng.normal(size=(n, DIM))
    return Pictures(Gaussian(torch.from_numpy(location), torch.from_numpy(blur)), NAMES[who].tolist())


def gallery() -> Pictures:
    """Thirty of each, as clear and as blurred as queries are."""
    rng, who = np.random.default_rng(1), np.repeat(np.arange(IDENTITIES), EACH)
    blur = rng.uniform(0.1, 0.7, (len(who), 1))
    location = CENTRES[who] + blur * rng.normal(size=(len(who), DIM))
    return Pictures(Gaussian(torch.from_numpy(location), torch.from_numpy(blur)), NAMES[who].tolist())


GALLERY = gallery()


def made(queries: Pictures, **options: float) -> Policy:
    return calibrate(queries.embedding, queries.labels, GALLERY.embedding, GALLERY.labels, **options)  # type: ignore[arg-type]


class Future:
    """Queries searched by brute force, once for each ranking; then any policy can be judged on them."""

    def __init__(self, queries: Pictures, *, hide: float = 0.0, seed: int = 0):
        self.names, wanted = np.array(GALLERY.labels), np.array(queries.labels)
        hidden = np.random.default_rng(seed).random(len(wanted)) < hide
        a, b = queries.embedding, GALLERY.embedding
        gaps = (a.mean[:, None] - b.mean).square().sum(-1).numpy()
        spread = (a.uncertainty[:, None] + b.uncertainty).numpy()
        self.query, self.known, self.wanted = a, np.isin(wanted, self.names) & ~hidden, wanted
        self.near = {}
        for by, square in (("distance", gaps + spread), ("mean", gaps)):
            distance = np.sqrt(square)
            distance[(wanted[:, None] == self.names) & hidden[:, None]] = 1e9
            order = np.argsort(distance, 1, kind="stable")[:, :DEPTH]
            self.near[by] = Neighbours(order, np.take_along_axis(distance, order, 1))

    def searched(self, policy: Policy) -> Searched:
        by, unit = policy.choice.by, policy.choice.unit
        return searched(self.query, GALLERY.embedding, self.names, self.near[by], by=by, unit=unit)

    def right(self, policy: Policy) -> np.ndarray:
        return self.known & (self.searched(policy).best == self.wanted)

    def kinds(self, policy: Policy) -> np.ndarray:
        return np.array([answer.kind for answer in decide(policy, self.searched(policy).evidence)])

    def judge(self, policy: Policy) -> tuple[float, float, float]:
        """Error among the matches, the share that gets one, and that of known queries called unknown."""
        kinds = self.kinds(policy)
        match = kinds == "match"
        error = (match & ~self.right(policy)).sum() / max(1, match.sum())
        return float(error), float(match.mean()), float((kinds[self.known] == "unknown").mean())


WORLDS = {
    "no unknowns at all": ({"unknowns": 0.0}, {"unknown_rate": 0.0}, {}),
    "unknowns among the queries": ({"unknowns": 0.3}, {}, {}),
    "unknowns made by hiding": ({"unknowns": 0.0}, {"unknown_rate": 0.3}, {"hide": 0.3}),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_promises_are_kept_in_the_future(world: str) -> None:
    drawn, options, future = WORLDS[world]
    rng = np.random.default_rng(0)
    coming = Future(pictures(3_000, rng, **drawn), **future)
    repeats, delta, max_error = 20, 0.2, 0.12
    broken, coverage, called, refused = 0, [], [], 0
    for seed in range(repeats):
        try:
            policy = made(pictures(400, rng, **drawn), max_error=max_error, confidence=1 - delta, seed=seed, **options)
        except CalibrationError:
            refused += 1
            continue
        error, share, false_unknown = coming.judge(policy)
        broken += error > max_error
        coverage.append(share)
        called.append(false_unknown)
        assert policy.certificate.match_coverage == pytest.approx(share, abs=0.15)
    assert broken / repeats <= delta + 3 * (delta * (1 - delta) / repeats) ** 0.5
    assert refused <= repeats / 4
    assert np.mean(coverage) > 0.25
    assert np.mean(called) <= 0.01 + 3 * np.std(called) / len(called) ** 0.5


def test_false_matches_are_bounded_where_that_is_asked_for() -> None:
    """At a large tolerated error most unknowns may get a match; an operator can forbid that."""
    rng = np.random.default_rng(20)
    coming, queries = Future(pictures(3_000, rng, unknowns=0.3)), pictures(900, rng, unknowns=0.3)
    free, strict = (
        made(queries, max_error=0.3, max_false_match=limit) if limit else made(queries, max_error=0.3)
        for limit in (None, 0.05)
    )
    let_in = {}
    for name, policy in (("free", free), ("strict", strict)):
        let_in[name] = (coming.kinds(policy)[~coming.known] == "match").mean()
    assert let_in["strict"] <= 0.05 < 0.15 < let_in["free"]
    promise = strict.certificate.false_match
    assert promise is not None
    assert promise.events / promise.n <= promise.bound <= promise.at_most == 0.05
    assert free.certificate.false_match is None
    assert free.certificate.false_match_rate == pytest.approx(let_in["free"], abs=0.1)


def test_certificate_says_what_was_done() -> None:
    rng = np.random.default_rng(1)
    queries = pictures(900, rng, unknowns=0.3)
    sealed = made(queries, max_error=0.1, confidence=0.9).certificate
    # None of the queries was spent on anything but the test.
    assert (sealed.max_error, sealed.confidence, sealed.n, sealed.gallery) == (0.1, 0.9, 900, len(GALLERY.labels))
    assert sealed.error.events / sealed.error.n <= sealed.error_bound <= 0.1
    assert sealed.match_coverage == pytest.approx(sealed.error.n / 900)
    assert sealed.coverage == pytest.approx(sealed.match_coverage + sealed.unknown_coverage)
    assert (sealed.identities, sealed.asked_identities) == (IDENTITIES, IDENTITIES)
    assert sealed.data == data_hash([str(row) for row in range(900)], queries.labels)
    assert sealed.unknown_rate == np.mean([name not in GALLERY.labels for name in queries.labels])
    known = round(900 * (1 - sealed.unknown_rate))
    assert sealed.false_unknown is not None
    assert (sealed.false_unknown.n, sealed.false_unknown.confidence) == (known, None)
    assert sealed.false_unknown.events / known <= 0.01
    missed = sealed.false_non_match_rate
    assert missed == pytest.approx(1 - (sealed.error.n - sealed.error.events) / known)


def test_a_tenth_of_many_queries_fits_and_the_others_test() -> None:
    sealed = made(pictures(1_500, np.random.default_rng(1), unknowns=0.3), max_error=0.1).certificate
    assert sealed.n == 1_350


def test_a_gallery_without_mates_teaches_nothing() -> None:
    """One picture of each identity: a third of the queries fits."""
    one = np.arange(0, len(GALLERY.labels), EACH)
    queries = pictures(900, np.random.default_rng(1), unknowns=0.3)
    names = [GALLERY.labels[row] for row in one]
    policy = calibrate(queries.embedding, queries.labels, GALLERY.embedding[one], names, max_error=0.25)
    assert policy.certificate.n == 600


def test_the_hash_names_queries_and_labels_in_any_order() -> None:
    ids, labels = ["a", "b", "c"], ["x", None, "y"]
    assert data_hash(ids, labels) == data_hash(ids[::-1], labels[::-1])
    others = [(ids, ["x", "y", None]), (["a", "b", "d"], labels), (ids[:2], labels[:2]), (ids, ["x", "None", "y"])]
    assert len({data_hash(*other) for other in [(ids, labels), *others]}) == 5


def test_probabilities_are_judged_on_identities_they_were_not_fitted_on() -> None:
    """The numbers add up, mean about what they say, and are better than a constant."""
    policy = made(pictures(3_000, np.random.default_rng(18), unknowns=0.3), max_error=0.15)
    assert set(policy.honesty) == {"same", "right", "none"}
    for name, honesty in policy.honesty.items():
        p, share, count = map(np.array, zip(*honesty.reliability, strict=True))
        assert count.sum() == honesty.n
        assert share @ count / count.sum() == pytest.approx(honesty.rate)
        assert np.abs(p - share) @ count / count.sum() == pytest.approx(honesty.ece)
        assert honesty.ece < 0.12, name
        assert honesty.brier < 0.85 * honesty.rate * (1 - honesty.rate), name
    assert policy.honesty["same"].rate == pytest.approx(0.5)
    assert policy.honesty["none"].rate == pytest.approx(0.3, abs=0.03)


def test_the_three_chances_leave_room_for_each_other() -> None:
    queries = pictures(900, np.random.default_rng(19), unknowns=0.3)
    policy, seen = made(queries, max_error=0.2), Future(queries)
    answers = decide(policy, seen.searched(policy).evidence)
    right, none = (np.array([getattr(answer, name) for answer in answers]) for name in ("probability", "none"))
    assert ((right + none) < 1).all()
    assert none[~seen.known].mean() > 0.15 + none[seen.known].mean()


def test_what_is_far_from_everything_is_unknown_without_novelty() -> None:
    rng = np.random.default_rng(2)
    policy = made(pictures(600, rng, unknowns=0.2), max_error=0.15)
    nearby, coming = pictures(500, rng), Future(pictures(500, rng))
    far = replace(nearby, embedding=nearby.embedding.map(lambda t: t + 20.0 * (t.shape[1] > 1)))
    assert (Future(far).kinds(policy) == "unknown").all()
    assert (coming.kinds(policy) == "unknown").mean() < 0.03


def test_novelty_says_unknown_too() -> None:
    """Where two numbers are looked at, each has half of the tolerated share."""
    rng = np.random.default_rng(2)
    queries = pictures(1_000, rng, unknowns=0.2)
    typical = NovelGaussian(*queries.embedding.tensors().values(), torch.from_numpy(rng.random(1_000)))
    policy = made(replace(queries, embedding=typical), max_error=0.15)
    assert policy.unknown is not None
    assert policy.unknown.novelty is not None
    assert policy.unknown.rank == int(0.005 * (policy.unknown.known + 1))
    assert policy.unknown.on_average <= 0.01


def test_too_few_known_queries_for_a_promise_about_unknown() -> None:
    queries = pictures(90, np.random.default_rng(3))
    assert made(queries, max_error=0.3, unknown_rate=0.0).unknown is None
    assert made(queries, max_error=0.3, max_false_unknown=0.05, unknown_rate=0.0).unknown is not None


def test_hiding_makes_the_asked_share_of_unknowns() -> None:
    policy = made(pictures(900, np.random.default_rng(4)), max_error=0.2, unknown_rate=0.3)
    assert policy.certificate.unknown_rate == pytest.approx(0.3, abs=0.05)


def test_no_hiding_where_there_are_unknowns() -> None:
    queries = pictures(900, np.random.default_rng(5), unknowns=0.2)
    low, high = (made(queries, max_error=0.2, unknown_rate=rate) for rate in (0.0, 0.9))
    assert low == high


def test_an_unknown_is_a_name_the_gallery_lacks_or_none() -> None:
    queries = pictures(900, np.random.default_rng(6), unknowns=0.3)
    nameless = [name if name in GALLERY.labels else None for name in queries.labels]
    without = calibrate(queries.embedding, nameless, GALLERY.embedding, GALLERY.labels, max_error=0.2)
    named = made(queries, max_error=0.2)
    assert (without.match_at, without.unknown) == (named.match_at, named.unknown)
    assert replace(without.certificate, data="") == replace(named.certificate, data="")


def test_tolerating_more_answers_more() -> None:
    queries = pictures(1_500, np.random.default_rng(7), unknowns=0.2)
    coverage = [made(queries, max_error=max_error).certificate.coverage for max_error in (0.05, 0.1, 0.25)]
    assert coverage == sorted(coverage)
    assert coverage[0] < coverage[-1]


def test_same_seed_same_policy() -> None:
    queries = pictures(600, np.random.default_rng(8), unknowns=0.2)
    assert made(queries, max_error=0.1, seed=3) == made(queries, max_error=0.1, seed=3)
    assert made(queries, max_error=0.1, seed=3) != made(queries, max_error=0.1, seed=4)


def test_the_order_of_the_gallery_does_not_matter_much() -> None:
    queries = pictures(900, np.random.default_rng(9), unknowns=0.2)
    turned = calibrate(queries.embedding, queries.labels, GALLERY.embedding[::-1], GALLERY.labels[::-1], max_error=0.1)
    assert turned.certificate.coverage == pytest.approx(made(queries, max_error=0.1).certificate.coverage, abs=0.1)


def test_points_have_no_limit_on_uncertainty() -> None:
    queries = pictures(900, np.random.default_rng(10), unknowns=0.2)
    policy = calibrate(
        Point(queries.embedding.mean), queries.labels, Point(GALLERY.embedding.mean), GALLERY.labels, max_error=0.15
    )
    assert policy.limits.uncertainty is None
    assert policy.limits.gallery_uncertainty is None


def test_limits_hold_for_most_known_queries() -> None:
    policy = made(pictures(3_000, np.random.default_rng(11)), max_error=0.1, unknown_rate=0.0)
    evidence = Future(pictures(3_000, np.random.default_rng(16))).searched(policy).evidence
    assert policy.limits.uncertainty is not None
    assert policy.limits.gap is not None
    assert np.mean(evidence.gap <= policy.limits.gap) == pytest.approx(0.95, abs=0.02)
    assert np.mean(evidence.uncertainty <= policy.limits.uncertainty) == pytest.approx(0.95, abs=0.02)
    assert policy.limits.references == EACH // 3


def test_a_perfect_model_still_needs_enough_queries() -> None:
    rng = np.random.default_rng(12)
    clear = pictures(60, rng)
    clear = replace(
        clear,
        embedding=Gaussian(
            torch.from_numpy(CENTRES[[int(n[2:]) for n in clear.labels]]), clear.embedding.scale * 0 + 0.1
        ),
    )
    with pytest.raises(CalibrationError, match="no policy can promise") as caught:
        made(clear, max_error=0.01, unknown_rate=0.0)
    assert "hold out about" in caught.value.fix
    assert "0 errors" in caught.value.got


def test_a_poor_model_promises_nothing() -> None:
    rng = np.random.default_rng(13)
    noisy = pictures(400, rng)
    noisy = replace(
        noisy, embedding=noisy.embedding.map(lambda t: t + 2.0 * torch.from_numpy(rng.normal(size=t.shape)).abs())
    )
    with pytest.raises(CalibrationError):
        made(noisy, max_error=0.01)


def test_a_model_that_knows_nothing() -> None:
    rng = np.random.default_rng(14)
    queries = pictures(300, rng)
    lost = Point(torch.from_numpy(rng.normal(size=(300, DIM))))
    with pytest.raises(CalibrationError):
        calibrate(lost, queries.labels, Point(GALLERY.embedding.mean), GALLERY.labels, max_error=0.05)


def test_too_little_to_calibrate_on() -> None:
    rng = np.random.default_rng(15)
    with pytest.raises(CalibrationError, match="30 held-out pictures"):
        made(pictures(29, rng))
    queries = pictures(100, rng)
    with pytest.raises(CalibrationError, match="two identities"):
        calibrate(queries.embedding, queries.labels, GALLERY.embedding[:EACH], GALLERY.labels[:EACH])
    with pytest.raises(CalibrationError, match="whose identity the gallery holds, got none"):
        calibrate(queries.embedding, [None] * 100, GALLERY.embedding, GALLERY.labels)


@pytest.mark.parametrize(
    "options",
    [
        {"max_error": 0.0},
        {"max_error": 1.0},
        {"confidence": 1.0},
        {"confidence": 0.0},
        {"max_false_unknown": 0.0},
        {"max_false_match": 1.5},
        {"unknown_rate": 1.0},
        {"unknown_rate": -0.1},
    ],
    ids=str,
)
def test_impossible_wishes(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        made(pictures(100, np.random.default_rng(16)), **options)


def test_labels_that_do_not_fit() -> None:
    queries = pictures(100, np.random.default_rng(17))
    with pytest.raises(InputError, match="query labels"):
        calibrate(queries.embedding, queries.labels[:-1], GALLERY.embedding, GALLERY.labels)
    with pytest.raises(InputError, match="gallery labels"):
        calibrate(queries.embedding, queries.labels, GALLERY.embedding, GALLERY.labels[:-1])
    with pytest.raises(InputError, match="None"):
        calibrate(queries.embedding, queries.labels, GALLERY.embedding, [*GALLERY.labels[:-1], None])  # type: ignore[list-item]
