"""Estimates tokens, and splits texts into calls."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from embedq.embedding import EmbedderLimits
from embedq.model import Budget

T = TypeVar("T")

BYTES_PER_TOKEN = 2  # most languages have three or four: this rather overestimates the tokens


def estimated(text: str) -> int:
    """Estimate the tokens of a text without its tokenizer. A call that is still too large is halved."""
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    return max(1, -(-size // BYTES_PER_TOKEN))


def packed(texts: Sequence[T], *, inputs: int, tokens: int | None, count: Callable[[T], int]) -> Sequence[Sequence[T]]:
    """Split texts into calls of at most `inputs` texts and `tokens` tokens, in order.

    A text with more tokens than a call may have goes alone: the provider decides about it.
    """
    inputs = max(1, inputs)
    if tokens is None:
        return [texts[start : start + inputs] for start in range(0, len(texts), inputs)]
    calls: list[list[T]] = []
    room = 0
    for text in texts:
        size = count(text)
        if not calls or len(calls[-1]) == inputs or size > room:
            calls.append([])
            room = tokens
        calls[-1].append(text)
        room -= size
    return calls


def most_tokens(limits: EmbedderLimits, budget: Budget | None) -> int | None:
    """Return the most tokens per call: the smaller of the embedder's limit and the whole budget."""
    known = [bound for bound in (limits.tokens_per_call, budget.tokens if budget else None) if bound is not None]
    return min(known, default=None)
