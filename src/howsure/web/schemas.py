"""What goes over the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["match", "unknown", "not_sure"]
Probability = Annotated[float, Field(ge=0, le=1)]
Id = Annotated[str, Field(min_length=1, max_length=1024)]
Label = Annotated[str, Field(min_length=1, max_length=256)]


class Wire(BaseModel):
    """A frozen record; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(BaseModel):
    """What went wrong, in the form of RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What was expected, what came, and what to do.")
    expected: str | None = None
    got: str | None = None
    fix: str | None = None


class Answer(Wire):
    """The answer about one query."""

    kind: Kind
    words: str = Field(description="The answer as a person would say it.")
    reason: str | None = Field(description="Why not sure, or why unknown; null for a match.")
    why: str | None = Field(description="The reason in words.")
    probability: Probability | None = Field(description="That the best match is right; null without a policy.")
    needed: Probability | None = Field(None, description="From which a match is answered; null without a policy.")
    none: Probability | None = Field(description="That nothing in the gallery is it; null where it is not calibrated.")
    either: Probability | None = Field(None, description="In a conflict, that it is one of the two best identities.")
    fault: str | None = Field(None, description="What is wrong with a poor picture; null where it cannot be told.")


class Match(Wire):
    """One gallery item that a query may show."""

    id: str
    label: str | None
    probability: Probability | None = Field(description="P(same) as a pair.")
    distance: float = Field(ge=0)


class Split(Wire):
    """Where the uncertainty comes from; the two add up to it."""

    picture: float = Field(ge=0, description="Due to the picture itself (aleatoric); another one may help.")
    model: float = Field(ge=0, description="Due to uncertain weights (epistemic); more training data may help.")


class Result(Wire):
    """The answer about one query, and what it rests on."""

    name: str
    query: str | None = Field(description="A name for these pixels, to be used in feedback; null without a picture.")
    picture: str | None = Field(description="What was looked at, as a data URL; null for a query without a picture.")
    answer: Answer
    uncertainty: float = Field(ge=0)
    rank: Probability | None = Field(description="Share of the gallery's items that are more certain.")
    split: Split | None = Field(description="Null where the method cannot tell, or not without the picture.")
    novelty: Probability | None = Field(description="How unlike the training data; null where the method cannot tell.")
    matches: list[Match]
    exact: bool
    audit: str | None = Field(None, description="Its number, if it was drawn to be labelled: see `POST audit`.")


class SearchReply(Wire):
    """One result a query, in order."""

    results: list[Result]
    drifted: bool | None = Field(description="Queries are no longer like those of calibration; null if not watched.")
    stale: list[str] = Field(description="How the gallery differs from the one that the promise was made for.")


class Precomputed(Wire):
    """Queries that need no network: items of the gallery by id, or embeddings by their fields."""

    ids: list[Id] | None = Field(None, max_length=256, description="Items whose embeddings are the queries.")
    fields: dict[str, list[list[float]]] | None = Field(
        None, description="The fields of the gallery's family, one row a query, as `GET gallery` names them."
    )
    k: int = Field(5, ge=1, le=100)


class Bell(Wire):
    """An embedding along the line through the two means."""

    at: float
    spread: float = Field(ge=0, description="One standard deviation.")


class VerifyReply(Wire):
    """Whether two pictures show the same."""

    answer: Answer
    probability: Probability = Field(description="P(same) where half of all pairs are.")
    distance: float = Field(ge=0)
    uncertainty: list[float]
    pictures: list[str]
    bells: list[Bell]


class Item(Wire):
    """An item of the gallery."""

    id: str
    label: str | None
    uncertainty: float = Field(ge=0)
    rank: Probability = Field(description="Share of the items that are more certain.")
    picture: bool = Field(description="Whether there is a thumbnail.")


class ItemQuery(Wire):
    """Which items, in what order, and which part of them."""

    sort: Literal["uncertainty", "label", "added"] = "uncertainty"
    descending: bool = Field(True, description="Largest, or last, first.")
    label: str | None = Field(None, max_length=256, description="Only items with exactly this label.")
    text: str | None = Field(None, max_length=256, description="Only items whose id has this in it.")
    least: Probability | None = Field(None, description="Only items of this rank or more.")
    most: Probability | None = Field(None, description="Only items of this rank or less.")
    probability_from: Probability | None = Field(
        None, description="Only items whose label their nearest neighbour of that label confirms with P(same) from here"
    )
    probability_to: Probability | None = Field(None, description="up to here.")
    offset: int = Field(0, ge=0, le=10**9)
    limit: int = Field(60, ge=1, le=500)


class ItemPage(Wire):
    """Some of the items that were asked for, and how many there are."""

    items: list[Item]
    total: int
    offset: int


class Added(Wire):
    """The items that are in the gallery now, durably."""

    items: list[Item]


class Step(Wire):
    """How far adding many has come, and what became of one of them."""

    done: int
    total: int
    id: str | None = Field(None, description="The item that is in the gallery now, durably.")
    problem: str | None = Field(None, description="Or why the picture is not.")


class Twins(Wire):
    """Two items that are likely one picture."""

    a: str
    b: str
    probability: Probability | None = Field(description="P(same); null where the model cannot tell yet.")


class LabelError(Wire):
    """An item that looks like those of another label."""

    id: str
    label: str
    suggested: str
    probability: Probability = Field(description="Of the suggested label, by the neighbours.")


class Suspects(Wire):
    """What may be wrong in the gallery, the surest first."""

    duplicates: list[Twins]
    label_errors: list[LabelError]


class Best(Wire):
    """The pictures that show an identity best, the most telling first."""

    ids: list[str]
    why: list[str]


class Removed(Wire):
    """The item is gone; the token brings it back."""

    id: str
    undo: str


class Undo(Wire):
    """The token that came with a removal."""

    undo: str = Field(min_length=1, max_length=64)


class Histogram(Wire):
    """Counts between edges."""

    edges: list[float]
    counts: list[int]


class GalleryReply(Wire):
    """What is served."""

    name: str
    items: int
    labels: list[str]
    labels_left_out: int = Field(description="How many labels past the first thousand.")
    family: str | None
    fields: list[str] = Field(description="What a precomputed query has to bring.")
    dim: int | None
    calibrated: bool
    method: str | None
    uncertainty: Histogram | None = Field(description="Of the items; null if all have the same.")
    usual: float | None = Field(description="Below it lie 95 % of the queries that were answered rightly.")
    pictures: int = Field(description="At most so many in a request.")
    bulk: int = Field(description="At most so many in a request that adds them one by one.")
    upload: int = Field(description="At most so many bytes in a request.")


class Bin(Wire):
    """Cases with about the same predicted probability."""

    probability: float
    happened: float
    cases: int


class HonestyReply(Wire):
    """Whether a probability means what it says, on held-out queries."""

    event: str
    ece: float
    brier: float
    cases: int
    reliability: list[Bin]


class Point(Wire):
    """What is answered, and how much of it is wrong, from a probability on."""

    threshold: float
    coverage: float
    risk: float


class PromiseReply(Wire):
    """A rate that stays at or below `at_most`; without a confidence, on average over held-out queries."""

    at_most: float
    bound: float
    confidence: float | None
    events: int
    n: int


class AuditedReply(Wire):
    """How the queries of a calibration were drawn by lot in use."""

    drawn: int
    used: int = Field(description="In the order of drawing, up to the first without a verdict.")
    waiting: int = Field(description="Verdicts behind that one.")
    since: str
    until: str
    rates: list[float]


class CertificateReply(Wire):
    """What was promised, on what evidence."""

    error: PromiseReply
    false_unknown: PromiseReply | None
    false_match: PromiseReply | None
    false_match_rate: float | None
    false_non_match_rate: float | None
    max_error: float
    confidence: float
    error_bound: float
    coverage: float
    match_coverage: float
    unknown_coverage: float
    n: int
    unknown_rate: float
    gallery: int
    identities: int
    made: str
    audit: AuditedReply | None = Field(description="Null where other queries were held out.")


class DriftReply(Wire):
    """Whether queries are still like those of calibration."""

    watches: list[str]
    seen: int
    evidence: float
    drifted: bool


class RocReply(Wire):
    """Unknowns against false alarms, as the threshold falls."""

    false_positive: list[float]
    true_positive: list[float]
    auroc: Probability


class Quality(Wire):
    """How good the answers are, as calibration found."""

    calibrated: bool
    threshold: float | None
    certificate: CertificateReply | None
    stale: list[str] = Field(description="How the gallery differs from the one that the promise was made for.")
    honesty: dict[str, HonestyReply]
    risk_coverage: list[Point] = Field(description="From the bins of `honesty.right`, the surest first.")
    drift: DriftReply | None
    unknown_roc: RocReply | None = Field(
        description="Items of the gallery, each asked about with and without the others of its label."
    )
    unknown_roc_why: str | None = Field(description="Why there is none.")


class Map(Wire):
    """Every item in a plane: arrays of one length, and the names that codes stand for."""

    ids: list[str]
    x: list[float]
    y: list[float]
    xx: list[float] = Field(description="Covariance of each embedding in the plane.")
    xy: list[float]
    yy: list[float]
    label: list[int] = Field(description="Position in `labels`; -1 without a label.")
    labels: list[str]
    uncertainty: list[float]
    error: list[int] | None = Field(description="1 where the nearest other picture carries another label.")
    error_why: str | None = Field(description="Why there is none, or not yet.")
    explained: float = Field(description="Share of the variance of the means that lies in the plane.")


class Feedback(Wire):
    """Whether a query shows the same as an item."""

    query: str = Field(pattern="^[0-9a-f]{64}$", description="As the search named it.")
    item: Id
    same: bool
    label: Label | None = Field(None, description="What the query shows, if it is known.")


class Pair(Wire):
    """A query, an item, and whether they show the same."""

    query: str
    picture: str | None = Field(description="The query's pixels, a file in the folder of the web app.")
    item: str
    item_label: str | None
    same: bool
    label: str | None
    time: str


class FeedbackPairs(Wire):
    """All feedback, oldest first."""

    pairs: list[Pair]


class Health(Wire):
    """The server is up."""

    status: Literal["ok"] = "ok"
    version: str
