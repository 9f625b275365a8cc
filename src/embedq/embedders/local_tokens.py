"""Turns texts into the model's tokens, and reads only as much of a long text as the model uses."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from embedq.embedders.local import MAX_TOKENS

_END_TOKEN = 102  # [SEP], which closes every text
_SAMPLE_CHARACTERS = 8192  # enough for 256 tokens of nearly every text
_BORDERS = " \n.,;。、"  # no token spans these
_FRAME = 2  # tokens that open and close every text
_TOKENS_PER_CHARACTER = 3  # at most: a Korean syllable is decomposed; an ASCII character is at most one token


class Tokens(NamedTuple):
    """A text as the model sees it."""

    ids: list[int]
    cut: bool  # the text is longer than the model's input


class TextTokenizer:
    """Cuts texts at the model's length, and says so."""

    def __init__(self, path: Path) -> None:
        """Read the vocabulary."""
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()  # done below: the library would also build what it cuts

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""
        samples = [_sample(text, _SAMPLE_CHARACTERS) for text in texts]
        found = self._tokenizer.encode_batch_fast(samples)
        return [
            self._settled(text, sample, encoding.ids)
            for text, sample, encoding in zip(texts, samples, found, strict=True)
        ]

    def _settled(self, text: str, sample: str, ids: list[int]) -> Tokens:
        while len(ids) <= MAX_TOKENS and len(sample) < len(text):
            sample = _sample(text, 2 * len(sample))
            ids = self._tokenizer.encode_batch_fast([sample])[0].ids
        if len(ids) <= MAX_TOKENS:
            return Tokens(ids, cut=False)
        return Tokens([*ids[: MAX_TOKENS - 1], _END_TOKEN], cut=True)


def most_tokens(text: str) -> int:
    """Return an upper bound of a text's tokens, without tokenizing it."""
    return _FRAME + len(text) * (1 if text.isascii() else _TOKENS_PER_CHARACTER)


def surely_whole(text: str) -> bool:
    """Say whether a text is so short that it cannot be cut, without tokenizing it."""
    return most_tokens(text) <= MAX_TOKENS


def _sample(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    border = max(text.rfind(mark, characters // 2, characters) for mark in _BORDERS)
    return text if border < 0 else text[: border + 1]
