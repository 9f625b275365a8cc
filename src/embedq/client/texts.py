"""Vectors of any texts, for applications that search by themselves."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from embedq.client.catalogue import Catalogue
from embedq.client.options import ClientOptions
from embedq.client.queries import NoVector, QueryVectors
from embedq.client.searching import check_words
from embedq.embedding import Purpose, TextVectors
from embedq.errors import Invalid, TooLarge, Unavailable
from embedq.model import EmbedderName, Space
from embedq.policy.texts import check_text, compose
from embedq.ports import Declaring

MAX_TEXTS = 100


class EmbeddedTexts:
    """Embeds texts in the space of a collection or of an embedder."""

    def __init__(self, store: Declaring, catalogue: Catalogue, vectors: QueryVectors, options: ClientOptions) -> None:
        """Embed in the spaces of this store."""
        self._store = store
        self._catalogue = catalogue
        self._vectors = vectors
        self._options = options

    async def of(
        self, texts: Sequence[str], purpose: str, *, collection: str | None, embedder: EmbedderName
    ) -> TextVectors:
        """Embed texts as the collection's embedder does, or without a collection as this one does."""
        meant = _purpose(purpose)
        self._check(texts, meant)
        space = await self._space(embedder) if collection is None else await self._space_of(collection)
        try:
            vectors = await self._vectors.of(space, texts, meant, within=self._patience(meant))
        except NoVector as why:
            raise Unavailable(f"no vector: {why}") from why
        return TextVectors(
            space=replace(space, dimensions=vectors.shape[1]), vectors=vectors.copy()
        )  # the cache keeps its own

    async def _space_of(self, collection: str) -> Space:
        return (await self._catalogue.look_up(collection)).space

    async def _space(self, name: EmbedderName) -> Space:
        """Find the space of an embedder; one that no collection uses is not known to the store."""
        unused = Space(embedder=name, dimensions=name.dimensions)
        return next((space for space in await self._store.spaces() if space.id == unused.id), unused)

    def _patience(self, purpose: Purpose) -> timedelta:
        """Wait for a query as a semantic search does, and for documents as workers do."""
        is_query = purpose is Purpose.QUERY
        return self._options.semantic_timeout if is_query else self._options.attempt_deadline

    def _check(self, texts: Sequence[str], purpose: Purpose) -> None:
        if isinstance(texts, str) or not texts:
            raise Invalid("texts must be a list of one or more strings")
        if len(texts) > MAX_TEXTS:
            raise TooLarge(f"{len(texts)} texts at once: send at most {MAX_TEXTS}")
        for text in texts:
            check_text(text, self._options.limits)
            check_words(text) if purpose is Purpose.QUERY else compose(None, text, {})
        size, most = sum(len(text.encode()) for text in texts), self._options.limits.text_bytes
        if size > most:
            raise TooLarge(f"the texts have {size} bytes together, the limit is {most}: send fewer at once")


def _purpose(value: str) -> Purpose:
    try:
        return Purpose(value)
    except ValueError:
        raise Invalid(f"purpose {value!r}: write {' or '.join(Purpose)}") from None
