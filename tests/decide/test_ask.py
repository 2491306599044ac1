import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from decide.policies import policy
from howsure.decide import Finding, Policy, ask
from howsure.decide.ask import _evidence
from howsure.embeddings import Draws, Gaussian, NovelGaussian, Point
from howsure.index import Index, LocalIndex
from howsure.match import Matcher


def embedding(*means: float) -> Gaussian:
    """Items on a line, all equally sure."""
    return Gaussian(torch.tensor(means)[:, None], torch.full((len(means), 1), 0.1))


@pytest.fixture
def gallery(tmp_path: Path) -> Iterator[Index]:
    """Two of ann near 0, one of bob near 3, and two nameless items near 6."""
    with LocalIndex.create(tmp_path / "gallery") as index:
        index.add(
            ["a1", "a2", "b1", "n1", "n2"], embedding(0.0, 0.1, 3.0, 6.0, 6.1), labels=["ann", "ann", "bob", None, None]
        )
        yield index


def easy() -> Policy:
    """As by hand: a lead of 1 over another identity is a match."""
    return policy()


def test_a_match(gallery: Index) -> None:
    made = replace(easy().certificate, gallery=len(gallery))
    (found,) = ask(gallery, embedding(0.02), policy=replace(easy(), certificate=made), k=2)
    assert found.answer.kind == "match"
    assert [match.id for match in found.matches] == ["a1", "a2"]
    assert [match.label for match in found.matches] == ["ann", "ann"]
    best = found.matches[0]
    assert best.distance == pytest.approx((0.02**2 + 0.02) ** 0.5, rel=1e-4)
    assert best.probability == pytest.approx(easy().matcher.probability(torch.tensor(best.distance)).item(), rel=1e-4)
    assert found.uncertainty == pytest.approx(0.01)
    assert found.novelty is None
    assert found.exact


def test_novelty_is_told_and_counts(gallery: Index) -> None:
    never_sure = uncertain()
    typical, novel = (NovelGaussian(*embedding(0.02).tensors().values(), torch.tensor([p])) for p in (0.5, 0.01))
    (a,), (b,) = (ask(gallery, query, policy=never_sure) for query in (typical, novel))
    assert (a.novelty, b.novelty) == (pytest.approx(0.5), pytest.approx(0.99))
    assert a.answer.reason != "unfamiliar"
    assert b.answer.reason == "unfamiliar"


def test_far_from_everything_is_unknown(gallery: Index) -> None:
    gallery.add(["n3"], embedding(6.2), labels=["ann"])
    made = replace(easy().certificate, gallery=len(gallery))
    (found,) = ask(gallery, embedding(30.0), policy=replace(easy(), certificate=made))
    assert (found.answer.kind, found.answer.reason) == ("unknown", "no_close_match")
    assert len(found.matches) == 5


def uncertain() -> Policy:
    """Never sure, and every distance is typical: what is left are conflicts and thin galleries."""
    return replace(policy(distance=None), match_at=1e9, limits=replace(policy().limits, gap=1e9))


def reason(found: Finding) -> str | None:
    return found.answer.reason


def test_items_without_a_label_are_identities_of_their_own(gallery: Index) -> None:
    """Between two pictures of ann there is no conflict; between two nameless items there is."""
    made = replace(uncertain().certificate, gallery=len(gallery), identities=4)
    bare = replace(uncertain(), limits=replace(uncertain().limits, references=1), certificate=made)
    ann, nameless = ask(gallery, embedding(0.05, 6.05), policy=bare)
    assert reason(ann) == "unlikely"
    assert reason(nameless) == "conflict"


def test_one_reference_is_a_thin_gallery(gallery: Index) -> None:
    (bob,) = ask(gallery, embedding(3.0), policy=uncertain())
    assert reason(bob) == "thin_gallery"


def test_without_a_policy_nothing_is_sure(gallery: Index) -> None:
    (bare,) = ask(gallery, embedding(0.0), policy=None)
    assert (bare.answer.kind, bare.answer.reason, bare.answer.probability) == ("not_sure", "not_calibrated", None)
    assert bare.matches[0].probability is None
    (linked,) = ask(gallery, embedding(0.0), policy=None, matcher=Matcher(4.0, 2.0, 0.5))
    assert linked.answer == bare.answer
    assert linked.matches[0].probability is not None


def test_an_empty_gallery_knows_nobody(gallery: Index) -> None:
    gallery.remove(gallery.ids())
    (found,) = ask(gallery, embedding(0.0), policy=easy())
    assert (found.answer.kind, found.matches) == ("unknown", ())


def test_identities_are_counted_with_the_nameless(gallery: Index) -> None:
    assert gallery.count_identities() == 4
    gallery.remove(gallery.ids())
    assert gallery.count_identities() == 0


def test_a_large_gallery_is_counted_by_a_sample(gallery: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery.add([f"c{i}" for i in range(95)], embedding(*[9.0] * 95), labels=[f"p{i // 5}" for i in range(95)])
    monkeypatch.setattr(importlib.import_module("howsure.index.index"), "SAMPLE", 50)
    assert gallery.count_identities() == pytest.approx(23, abs=4)


def test_probabilities_in_a_larger_gallery(gallery: Index) -> None:
    made = replace(easy().certificate, gallery=len(gallery), identities=4)
    (here,) = ask(gallery, embedding(0.02), policy=replace(easy(), certificate=made))
    gallery.add([f"c{i}" for i in range(996)], embedding(*[9.0] * 996))
    (there,) = ask(gallery, embedding(0.02), policy=replace(easy(), certificate=made))
    assert there.answer.probability < here.answer.probability
    assert there.matches[0].probability < here.matches[0].probability


def test_more_matches_than_items(gallery: Index) -> None:
    (found,) = ask(gallery, embedding(0.0), policy=easy(), k=100)
    assert len(found.matches) == 5


def test_members_of_an_ensemble_vote_among_the_candidates(tmp_path: Path) -> None:
    """Two networks; the second one swaps ann and bob."""
    first, second = Point(torch.tensor([[0.0], [1.0]])), Point(torch.tensor([[1.0], [0.0]]))
    with LocalIndex.create(tmp_path / "ensemble") as index:
        index.add(["a", "b"], Draws.stack([first, second]), labels=["ann", "bob"])
        query = Draws.stack([Point(torch.tensor([[0.1]])), Point(torch.tensor([[0.1]]))])
        seen, as_one = _evidence(index, query, index.search(query, 2), policy())
    assert seen.member_agreement.tolist() == [1.0]  # of the two nearest to each member, one shows the answer
    assert as_one.member_agreement.tolist() == [2.0]  # and both, if the two identities are one
