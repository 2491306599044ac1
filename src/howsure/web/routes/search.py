"""Search and verify: the answer about a picture, and about two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated

import numpy as np
import torch
from fastapi import APIRouter, File, Form, Response, UploadFile

from howsure.compare import rms_distance
from howsure.decide import Finding, verify_pair
from howsure.embeddings import Embedding, cat
from howsure.errors import HowsureError, InputError, ModelError
from howsure.match import match_probability
from howsure.web.pictures import Picture, data_url, degraded
from howsure.web.replies import as_json
from howsure.web.schemas import Bell, Match, Precomputed, Result, SearchReply, Split, VerifyReply
from howsure.web.sentences import about_pair, about_query
from howsure.web.service import Served, Service
from howsure.web.state import State
from howsure.web.view import View

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
    uploads = await served.read(pictures)
    severities = {"blur": blur, "occlusion": occlusion, "noise": noise}
    # What is made worse on purpose says nothing about the queries that come in.
    counted = not trial and not any(severities.values())
    reply = await served.pictures.run(_search_pictures, served, uploads, severities, k, counted)
    served.counters.pictures += len(uploads)
    return _counted(served, reply)


@router.post("/search/precomputed", response_model=SearchReply)
async def search_precomputed(served: Served, asked: Precomputed) -> Response:
    """The same for queries that need no network: items of the gallery, or beliefs that you bring."""
    return _counted(served, await served.questions.ask(asked))


@router.post("/verify")
async def verify(
    served: Served,
    a: Annotated[UploadFile, File(description="A picture.")],
    b: Annotated[UploadFile, File(description="Another picture.")],
) -> VerifyReply:
    """Do two pictures show the same thing? The probability is for a world where half of all pairs do."""
    uploads = await served.read([a, b])
    reply = await served.pictures.run(_verify, served, uploads)
    served.counters.pictures += 2
    return reply


def _search_pictures(
    served: Service, uploads: Sequence[tuple[str, bytes]], severities: dict[str, int], k: int, counted: bool
) -> SearchReply:
    state = served.state
    pictures = [Picture(one.name, degraded(one.image, severities)) for one in served.decode(uploads)]
    belief, model = state.encode_split(pictures)
    findings = state.ask(belief, k)
    shown = [(one.name, state.recent.keep(one.image), data_url(one.image)) for one in pictures]
    drifted = state.watch(findings) if counted else None
    return _reply(state.last_view(), _splits(belief, model), findings, shown, drifted=drifted)


def answer_all(state: State, asked: Sequence[Precomputed]) -> list[SearchReply | HowsureError]:
    """Precomputed questions, searched together; each gets what it would get alone."""
    replies: dict[int, SearchReply | HowsureError] = {}
    kinds: dict[tuple[str, ...] | None, list[int]] = {}
    for place, one in enumerate(asked):
        kinds.setdefault(None if one.fields is None else tuple(one.fields), []).append(place)
    for places in kinds.values():
        beliefs = dict(zip(places, _beliefs(state, [asked[place] for place in places]), strict=True))
        good = {place: belief for place, belief in beliefs.items() if not isinstance(belief, HowsureError)}
        replies |= {place: wrong for place, wrong in beliefs.items() if isinstance(wrong, HowsureError)}
        if good:
            replies |= _answers(state, asked, good)
    return [replies[place] for place in range(len(asked))]


def _answers(
    state: State, asked: Sequence[Precomputed], good: dict[int, Embedding]
) -> dict[int, SearchReply | HowsureError]:
    try:
        findings = iter(state.ask(cat([*good.values()]), max(asked[place].k for place in good)))
    except HowsureError as error:
        if len(good) == 1:
            return dict.fromkeys(good, error)
        # It is about one of them; the others are answered without it.
        alone = [_answers(state, asked, {place: belief}) for place, belief in good.items()]
        return {place: reply for replies in alone for place, reply in replies.items()}
    view = state.last_view()
    replies: dict[int, SearchReply | HowsureError] = {}
    for place, belief in good.items():
        names = asked[place].ids or [f"query {row + 1}" for row in range(len(belief))]
        mine = [replace(one, matches=one.matches[: asked[place].k]) for one in islice(findings, len(belief))]
        splits = _splits(belief, state.embedder.model_part(belief))
        replies[place] = _reply(view, splits, mine, [(name, None, None) for name in names], drifted=None)
    return replies


def _beliefs(state: State, asked: Sequence[Precomputed]) -> list[Embedding | HowsureError]:
    """The beliefs of each question, or what is wrong with it: made all at once, and one by one where that fails."""
    try:
        counts = [_count(one) for one in asked]
        if asked[0].ids is not None:
            belief = state.known([name for one in asked for name in one.ids or ()])
        else:
            names = asked[0].fields or {}
            belief = state.given({name: [row for one in asked for row in (one.fields or {})[name]] for name in names})
    except HowsureError as error:
        return [error] if len(asked) == 1 else [belief for one in asked for belief in _beliefs(state, [one])]
    ends = np.cumsum(counts).tolist()
    return [belief[end - count : end] for count, end in zip(counts, ends, strict=True)]


def _count(asked: Precomputed) -> int:
    """How many queries a question brings."""
    if (asked.ids is None) == (asked.fields is None):
        raise InputError("query", expected="ids or fields", got="both" if asked.ids is not None else "neither")
    counts = {len(asked.ids)} if asked.ids is not None else {len(rows) for rows in (asked.fields or {}).values()}
    if len(counts) > 1:
        raise InputError(
            "fields", expected="rows of one length, as many in each field", got=" and ".join(map(str, sorted(counts)))
        )
    count, what = max(counts, default=0), "fields" if asked.ids is None else "ids"
    if not 0 < count <= MOST:
        raise InputError(what, expected=f"at least one, at most {MOST}", got=str(count) if count else "none")
    return count


def _reply(
    view: View,
    splits: Sequence[Split | None],
    findings: Sequence[Finding],
    shown: Sequence[tuple[str, str | None, str | None]],
    *,
    drifted: bool | None,
) -> SearchReply:
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
        )
        for row, (finding, (name, query, picture)) in enumerate(zip(findings, shown, strict=True))
    ]
    return SearchReply(results=results, drifted=drifted)


def _splits(belief: Embedding, model: torch.Tensor | None) -> list[Split | None]:
    """The part of the model and what it leaves; None where nobody can tell, or there is nothing to share out."""
    if model is None:
        return [None] * len(belief)
    whole = belief.uncertainty
    parts = zip(whole.tolist(), (whole - model).clamp_min(0).tolist(), model.tolist(), strict=True)
    return [Split(picture=own, model=part) if total else None for total, own, part in parts]


def _verify(served: Service, uploads: Sequence[tuple[str, bytes]]) -> VerifyReply:
    state = served.state
    matcher = state.policy.matcher if state.policy else state.gallery.matcher
    if matcher is None:
        raise ModelError("this model cannot tell probabilities yet", fix="run howsure calibrate")
    pictures = served.decode(uploads)
    belief = state.encode(pictures)
    probability = float(match_probability(matcher.at(0.5), belief[0], belief[1], paired=True))
    return VerifyReply(
        answer=about_pair(verify_pair(probability, state.policy)),
        probability=probability,
        distance=float(rms_distance(belief[0], belief[1], paired=True)),
        uncertainty=belief.uncertainty.tolist(),
        pictures=[data_url(one.image) for one in pictures],
        bells=_bells(belief),
    )


def _bells(belief: Embedding) -> list[Bell]:
    """Both beliefs along the line through their means; where these are one, along the first axis."""
    mean, variance = belief.mean.double(), belief.variance.double()
    gap = float((mean[1] - mean[0]).norm())
    line = (mean[1] - mean[0]) / gap if gap else torch.eye(mean.shape[1], dtype=mean.dtype)[0]
    spread = (variance * line.square()).sum(1).sqrt().tolist()
    return [Bell(at=0.0, spread=spread[0]), Bell(at=gap, spread=spread[1])]


def _counted(served: Service, reply: SearchReply) -> Response:
    served.counters.answers.update(result.answer.kind for result in reply.results)
    return as_json(reply)
