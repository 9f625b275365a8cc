"""From a query to an answer: by meaning, by words, or both."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any

from embedq.client.catalogue import Catalogue
from embedq.client.options import ClientOptions
from embedq.client.queries import NoVector, QueryVectors
from embedq.errors import Conflict, Invalid, NotFound, SearchUnavailable
from embedq.model import Answer, Collection, Freshness, Hit, Query, SearchMode, Shown, Vector
from embedq.policy.filters import read_filter
from embedq.policy.ranking import fuse
from embedq.policy.texts import check_id
from embedq.ports.needs import SearchStore
from embedq.telemetry import Event, Telemetry

MAX_K = 1000
MAX_QUERY_BYTES = 32 * 1024
FUSED_DEPTH = 4  # each ranking fetches this many times k, so that a record low in one can still win by both
LEAST_DEPTH = 50
Ranked = tuple[SearchMode, Sequence[Hit], Sequence[Hit]]  # how, the ranking, and what was found by its vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked search request."""

    words: str
    mode: SearchMode
    query: Query


class Searching:
    """Answers searches of a store."""

    def __init__(
        self,
        store: SearchStore,
        catalogue: Catalogue,
        vectors: QueryVectors,
        *,
        options: ClientOptions,
        telemetry: Telemetry,
    ) -> None:
        """Search the collections of this store; these are the queries' vectors."""
        self._store = store
        self._catalogue = catalogue
        self._options = options
        self._telemetry = telemetry
        self._vectors = vectors
        self._unable: str | None = None  # why this process cannot search by vectors

    def read(
        self,
        words: str,
        *,
        k: int,
        mode: SearchMode | str,
        filter: Mapping[str, Any] | None,  # noqa: A002 the API's own name
        tenant: str | None,
    ) -> Asked:
        """Parse a search request, or refuse it."""
        check_words(words)
        _check_k(k)
        if tenant is not None:
            check_id(tenant, what="tenant")
        return Asked(words=words, mode=_mode(mode), query=Query(k=k, filter=read_filter(filter), tenant=tenant))

    async def answer(self, name: str, asked: Asked) -> Answer:
        """Answer a search, reading the collection again if the cached one is outdated."""
        try:
            return await self._answer(await self._catalogue.look_up_learnt(name), asked)
        except (NotFound, Conflict):  # dropped or declared again by another process since it was cached
            self._catalogue.forget(name)
            return await self._answer(await self._catalogue.look_up_learnt(name), asked)

    async def _answer(self, collection: Collection, asked: Asked) -> Answer:
        """Answer a search; without a query vector, fall back to words and say why."""
        started = monotonic()
        (mode, ranked, near), reason = await self._ranked(collection, asked)
        hits, freshness = await self._show(collection.declaration.name, ranked, near)
        if freshness.trouble is not None:
            hits = [replace(hit, stale=True) for hit in hits]  # it is unknown whether their texts are current
        self._telemetry.emit(
            Event.SEARCHED,
            level="debug",
            collection=collection.declaration.name,
            mode=mode.value,
            hits=len(hits),
            reason=reason,
            seconds=monotonic() - started,
        )
        return Answer(hits=hits, mode_used=mode, reason=reason, freshness=freshness)

    async def _ranked(self, collection: Collection, asked: Asked) -> tuple[Ranked, str | None]:
        vector, reason = await self._vector(collection, asked)
        try:
            return await self._rank(collection, asked, vector), reason
        except SearchUnavailable as why:
            self._unable = str(why)  # from now on no query is embedded for nothing
            vector, reason = await self._vector(collection, asked)
            return await self._rank(collection, asked, vector), reason

    async def _vector(self, collection: Collection, asked: Asked) -> tuple[Vector | None, str | None]:
        if asked.mode is SearchMode.KEYWORD:
            return None, None
        semantic = asked.mode is SearchMode.SEMANTIC
        limit = self._options.semantic_timeout if semantic else self._options.query_timeout
        try:
            return await self._query_vector(collection, asked.words, limit), None
        except NoVector as why:
            if semantic:
                said = str(why).rstrip(".")
                raise SearchUnavailable(f"no query vector: {said}; mode auto or keyword answers by words") from why
            return None, f"answered by words: {why}"

    async def _query_vector(self, collection: Collection, words: str, within: timedelta) -> Vector:
        if self._unable is not None:
            raise NoVector(self._unable)
        row: Vector = (await self._vectors.of(collection.space, [words], within=within))[0]
        return row

    async def _rank(self, collection: Collection, asked: Asked, vector: Vector | None) -> Ranked:
        """Rank records; also return those that were found by their vectors."""
        name, query = collection.declaration.name, replace(asked.query, bare=True, space=collection.space)
        if vector is None:
            return SearchMode.KEYWORD, await self._store.search_words(name, asked.words, query), ()
        if asked.mode is SearchMode.SEMANTIC:
            near = await self._store.search_vector(name, vector, query)
            return SearchMode.SEMANTIC, near, near
        deep = replace(query, k=max(FUSED_DEPTH * query.k, LEAST_DEPTH))
        near, worded = await asyncio.gather(
            self._store.search_vector(name, vector, deep), self._store.search_words(name, asked.words, deep)
        )
        return SearchMode.HYBRID, fuse(near, worded, query.k), near

    async def _show(self, name: str, ranked: Sequence[Hit], near: Sequence[Hit]) -> tuple[list[Hit], Freshness]:
        """Read texts and attributes of the final hits only: rankings are deep, and texts may be long.

        `near` were found by their vectors; one whose text changed since is stale.
        """
        by_vector = {hit.id for hit in near}
        some, freshness = await self._store.show(
            name, [hit.id for hit in ranked], max_bytes=self._options.max_answer_bytes
        )
        found = {record.id: record for record in some}
        hits = [_shown(hit, found[hit.id], by_vector=hit.id in by_vector) for hit in ranked if hit.id in found]
        return hits, freshness


def _shown(hit: Hit, record: Shown, *, by_vector: bool) -> Hit:
    overtaken = by_vector and not record.current
    return replace(hit, text=record.text, attributes=record.attributes, stale=hit.stale or overtaken)


def check_words(words: object) -> None:
    """Refuse a query that is empty or too long."""
    if not isinstance(words, str):
        raise Invalid(f"the query must be a string, not {type(words).__name__}")
    if not words.strip():
        raise Invalid("the query is empty: write what to look for")
    try:
        size = len(words.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"the query is no valid Unicode (a lone surrogate at position {error.start})") from error
    if size > MAX_QUERY_BYTES:
        raise Invalid(f"the query has {size} bytes, the limit is {MAX_QUERY_BYTES}")
    if "\0" in words:
        raise Invalid("the query must not hold NUL characters")


def _check_k(k: object) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        raise Invalid(f"k={k}: it must be a whole number from 1 to {MAX_K}")


def _mode(value: str) -> SearchMode:
    try:
        return SearchMode(value)
    except ValueError:
        raise Invalid(f"mode {value!r}: write {', '.join(SearchMode)}") from None
