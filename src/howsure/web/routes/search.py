"""Search and verify: the answer about a picture, and about two."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated

import numpy as np
import torch
from fastapi import APIRouter, File, Form, Response, UploadFile

from howsure.compare import rms_distance
from howsure.data.content import content_hashes
from howsure.decide import Finding
from howsure.decide.seen import Items
from howsure.embeddings import Embedding, cat
from howsure.errors import HowsureError, InputError
from howsure.web.pictures import KEPT, Picture, data_url, degraded, png
from howsure.web.schemas import Bell, Match, Precomputed, Result, SearchReply, Split, VerifyReply
from howsure.web.sentences import about_pair, about_query
from howsure.web.service import Served, Service
from howsure.web.state import State

router = APIRouter(tags=["search"])

MOST = 256  # queries of one question

Severity = Annotated[int, Form(ge=0, le=5, description="0 is as it is, 5 is severe.")]


@router.post("/search", response_model=SearchReply)
async def search(
    served: Served,
    pictures: Annotated[list[UploadFile], File(description="One or more pictures.")],
    k: Annotated[int, Form(ge=1, le=100, description="How many matches.")] = 5,
    blur: Severity = 0,
    occlusion: Severity = 0,
    noise: Severity = 0,
    trial: Annotated[bool, Form(description="Made worse by whoever asks: not counted where drift is watched.")] = False,
) -> Response:
    """What in the gallery is this, if anything? Pictures can be made worse on purpose, to see certainty fall."""
    uploads = await served.read(pictures, most=served.settings.pictures)
    severities = {"blur": blur, "occlusion": occlusion, "noise": noise}
    # What is made worse on purpose says nothing about the queries that come in.
    counted = not trial and not any(severities.values())
    reply = await served.pictures.run(_search_pictures, served, uploads, severities, k, counted)
    served.counters.pictures += len(uploads)
    return _counted(served, reply)


@router.post("/search/precomputed", response_model=SearchReply)
async def search_precomputed(served: Served, asked: Precomputed) -> Response:
    """The same for queries that need no network: items of the gallery, or embeddings that you bring."""
    return _counted(served, await served.questions.ask(asked))


@router.post("/verify")
async def verify(
    served: Served,
    a: Annotated[UploadFile, File(description="A picture.")],
    b: Annotated[UploadFile, File(description="Another picture.")],
) -> VerifyReply:
    """Do two pictures show the same thing? The probability is for a world where half of all pairs do."""
    uploads = await served.read([a, b], most=2)
    reply = await served.pictures.run(_verify, served, uploads)
    served.counters.pictures += 2
    return reply


def _search_pictures(
    served: Service, uploads: Sequence[tuple[str, bytes]], severities: dict[str, int], k: int, counted: bool
) -> SearchReply:
    state = served.state
    pictures = [Picture(one.name, degraded(one.image, severities)) for one in served.decode(uploads)]
    query, model = state.gallery.embedder.encode_split([one.image for one in pictures])
    names = [state.recent.keep(one.image) for one in pictures]
    asked = _items(state, query, pictures, names)
    findings = state.gallery.ask(asked, k, watch=False, audit=served.settings.audit if counted else 0.0)
    for one, name, finding in zip(pictures, names, findings, strict=True):
        if finding.audit:
            state.feedback.keep(name, png(one.image, KEPT))
    shown = [(one.name, name, data_url(one.image)) for one, name in zip(pictures, names, strict=True)]
    drifted = state.gallery.watch(findings) if counted else None
    return _reply(state, _splits(query, model), findings, shown, drifted=drifted)


def _items(state: State, query: Embedding, pictures: Sequence[Picture], names: Sequence[str]) -> Items:
    """The queries with all by which they would be known again, if they are drawn for the audit."""
    spec = state.gallery.embedder.spec
    content = content_hashes(np.stack([spec.pixels(one.image) for one in pictures]))
    files = tuple(str(state.feedback.picture_of(name)) for name in names)
    known = np.ones(len(pictures), bool)
    return Items(query, tuple(names), (None,) * len(pictures), files, content, known, _measures(state, pictures))


def _measures(state: State, pictures: Sequence[Picture]) -> np.ndarray | None:
    """Of the quality of the pictures, where the policy looks at it."""
    policy = state.gallery.policy
    if policy is None or policy.quality is None:
        return None
    return np.array([policy.quality.measure(one.image) for one in pictures])


def answer_all(state: State, questions: Sequence[Precomputed]) -> list[SearchReply | HowsureError]:
    """Precomputed questions, searched together; each gets what it would get alone."""
    replies: dict[int, SearchReply | HowsureError] = {}
    groups: dict[Hashable, dict[int, Embedding]] = {}  # those that can be joined, by the shape of their fields
    for number, question in enumerate(questions):
        try:
            query = _query(state, question)
        except HowsureError as error:
            replies[number] = error
        else:
            shape = tuple((tensor.shape[1:], tensor.dtype) for tensor in query.tensors().values())
            groups.setdefault(shape, {})[number] = query
    for group in groups.values():
        findings = iter(state.gallery.ask(cat([*group.values()]), max(questions[n].k for n in group), watch=False))
        for number, query in group.items():
            asked = questions[number]
            names = asked.ids or [f"query {row + 1}" for row in range(len(query))]
            own = [replace(one, matches=one.matches[: asked.k]) for one in islice(findings, len(query))]
            splits = _splits(query, state.gallery.embedder.model_part(query))
            shown = [(name, None, None) for name in names]
            replies[number] = _reply(state, splits, own, shown, drifted=None)
    return [replies[number] for number in range(len(questions))]


def _query(state: State, asked: Precomputed) -> Embedding:
    """The queries of a question, between 1 and `MOST`."""
    if (asked.ids is None) == (asked.fields is None):
        raise InputError("query", expected="ids or fields", got="both" if asked.ids is not None else "neither")
    what = "fields" if asked.ids is None else "ids"
    counts = {len(rows) for rows in ([asked.ids] if asked.ids is not None else (asked.fields or {}).values())}
    if len(counts) > 1:
        raise InputError(
            "fields", expected="rows of one length, as many in each field", got=" and ".join(map(str, sorted(counts)))
        )
    count = max(counts, default=0)
    if not 0 < count <= MOST:
        raise InputError(what, expected=f"at least one, at most {MOST}", got=str(count) if count else "none")
    return state.embedding_of(asked.ids) if asked.ids is not None else state.embedding_from(asked.fields or {})


def _reply(
    state: State,
    splits: Sequence[Split | None],
    findings: Sequence[Finding],
    shown: Sequence[tuple[str, str | None, str | None]],
    *,
    drifted: bool | None,
) -> SearchReply:
    view, policy = state.last_view(), state.gallery.policy
    results = [
        Result(
            name=name,
            query=query,
            picture=picture,
            answer=about_query(finding),
            uncertainty=finding.uncertainty,
            rank=view.rank(finding.uncertainty),
            split=splits[row],
            novelty=finding.novelty,
            matches=[Match(**vars(match)) for match in finding.matches],
            exact=finding.exact,
            audit=finding.audit,
        )
        for row, (finding, (name, query, picture)) in enumerate(zip(findings, shown, strict=True))
    ]
    stale = policy.stale_in(state.index) if policy else ()
    return SearchReply(results=results, drifted=drifted, stale=list(stale))


def _splits(query: Embedding, model: torch.Tensor | None) -> list[Split | None]:
    """The part of the model and the rest; None where the method cannot tell, or the uncertainty is 0."""
    if model is None:
        return [None] * len(query)
    total = query.uncertainty
    parts = zip(total.tolist(), (total - model).clamp_min(0).tolist(), model.tolist(), strict=True)
    return [Split(picture=own, model=part) if whole else None for whole, own, part in parts]


def _verify(served: Service, uploads: Sequence[tuple[str, bytes]]) -> VerifyReply:
    gallery, pictures = served.state.gallery, served.decode(uploads)
    embedding = gallery.embed([one.image for one in pictures])
    (answer,) = gallery.verify(embedding[0], embedding[1])
    return VerifyReply(
        answer=about_pair(answer),
        probability=answer.probability or 0.0,
        distance=float(rms_distance(embedding[0], embedding[1], paired=True)),
        uncertainty=embedding.uncertainty.tolist(),
        pictures=[data_url(one.image) for one in pictures],
        bells=_bells(embedding),
    )


def _bells(embedding: Embedding) -> list[Bell]:
    """Both embeddings along the line through their means; where these are one, along the first axis."""
    mean, variance = embedding.mean.double(), embedding.variance.double()
    gap = float((mean[1] - mean[0]).norm())
    line = (mean[1] - mean[0]) / gap if gap else torch.eye(mean.shape[1], dtype=mean.dtype)[0]
    deviation = (variance * line.square()).sum(1).sqrt().tolist()
    return [Bell(at=0.0, spread=deviation[0]), Bell(at=gap, spread=deviation[1])]


def _counted(served: Service, reply: SearchReply) -> Response:
    served.counters.answers.update(result.answer.kind for result in reply.results)
    # Checked when it was made; to let FastAPI do it again would take longer than most searches.
    return Response(reply.model_dump_json(), media_type="application/json")
