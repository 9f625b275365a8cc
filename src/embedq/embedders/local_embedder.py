"""all-MiniLM-L6-v2 on this machine's cores: no key, no network, no torch."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from embedq.embedders.http_answers import encoded
from embedq.embedders.local import DIMENSIONS, LIMITS, MAX_TOKENS, MODEL, PROVIDER
from embedq.embedders.local_engine import Engine, leave, take
from embedq.embedders.local_model import packed
from embedq.embedders.local_tokens import Tokens, most_tokens, surely_whole
from embedq.embedding import Embeddings, Purpose
from embedq.errors import SettingsError
from embedq.model import EmbedderName

_REMEMBERED = 8192  # texts whose length in tokens is known from embedding them


class LocalEmbedder:
    """Embeds on the CPU. All embedders of a process share one model and one thread per core."""

    dimensions: int | None = DIMENSIONS
    limits = LIMITS
    remote = PROVIDER.remote

    def __init__(self, name: EmbedderName, *, environment: Mapping[str, str]) -> None:
        """Find the model's files; they are read at the first call, or by `warm`."""
        if name.model not in {"", MODEL} or name.dimensions not in {None, DIMENSIONS}:
            raise SettingsError(f"{name}: the local embedder has one model, {MODEL}, of {DIMENSIONS} dimensions.")
        self.name = name
        self._engine: Engine | None = take(environment)
        self._cut: OrderedDict[tuple[int, int], bool] = OrderedDict()

    async def warm(self) -> None:
        """Load the model now, in a thread, so that the first text does not wait for it."""
        engine = self._running()
        await engine.do(engine.model.load, urgent=True)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Return one unit vector per text, of its first 256 tokens; a query goes ahead of documents."""
        if not texts:
            return Embeddings(vectors=np.empty((0, DIMENSIONS), np.float32), tokens=0)
        encoded(list(texts))
        engine, urgent = self._running(), purpose is Purpose.QUERY or len(texts) == 1
        tokens = await engine.do(engine.model.tokens, texts, urgent=urgent)
        self._remember(texts, tokens)
        runs = packed([len(each.ids) for each in tokens], engine.threads.size)
        parts = [[tokens[number].ids for number in run] for run in runs]
        answers = await asyncio.gather(*(engine.do(engine.model.vectors, part, urgent=urgent) for part in parts))
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)
        for run, answer in zip(runs, answers, strict=True):
            vectors[run] = answer
        return Embeddings(vectors=vectors, tokens=sum(len(each.ids) for each in tokens))

    def tokens(self, text: str) -> int:
        """Return an upper bound of the text's tokens, without the tokenizer."""
        return min(MAX_TOKENS, most_tokens(text))

    def truncates(self, text: str) -> bool:
        """Say whether the text is longer than the model's input; known at once for short texts and after embedding."""
        if surely_whole(text):
            return False
        known = self._cut.get(_key(text))
        if known is None:
            [tokens] = self._running().model.tokens([text])
            return tokens.cut
        return known

    async def close(self) -> None:
        """Release the model; the last user ends the threads."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(leave, engine)

    def _running(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("This embedder is closed.")
        return self._engine

    def _remember(self, texts: Sequence[str], tokens: Sequence[Tokens]) -> None:
        for text, each in zip(texts, tokens, strict=True):
            if not surely_whole(text):
                self._cut[_key(text)] = each.cut
        while len(self._cut) > _REMEMBERED:
            self._cut.popitem(last=False)


def _key(text: str) -> tuple[int, int]:
    return hash(text), len(text)  # Python caches a string's hash, so this is cheap and holds no text
