"""Servers of the OpenAI embeddings protocol, called through the official SDK."""

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openai

from embedq.embedders.http_answers import encoded, told_limits
from embedq.embedders.http_bounds import PLAIN, bound, expect
from embedq.embedders.http_settings import address_in, key_in
from embedq.embedders.openai import BASE_URL, KEY, ORGANIZATION, PROJECT, PROVIDER
from embedq.embedders.openai_errors import translated
from embedq.embedding import Embeddings, Purpose
from embedq.errors import Permanent, SettingsError, Transient, Unavailable
from embedq.model import EmbedderName, Vector
from embedq.policy.tokens import estimated

DEFAULT_URL = "https://api.openai.com/v1"
_TIMEOUT = openai.Timeout(120.0, connect=10.0)  # a fallback: the worker's own deadline comes first


class OpenAIEmbedder:
    """Calls a provider through the official SDK, without its retries: the queue retries."""

    remote = PROVIDER.remote

    def __init__(self, name: EmbedderName, *, environment: Mapping[str, str]) -> None:
        """Check the settings and prepare the client; nothing is sent yet."""
        if not name.model:
            raise SettingsError("openai: name the model too, as in openai:text-embedding-3-small.")
        self.name = name
        self.dimensions = PROVIDER.dimensions_of(name)
        self.limits = PROVIDER.limits_of(name)
        self._key = key_in(environment, KEY, of="openai")
        self._encoding = "base64"  # a quarter of the bytes; servers without support answer with numbers
        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=address_in(environment, BASE_URL, default=DEFAULT_URL),
            organization=environment.get(ORGANIZATION),
            project=environment.get(PROJECT),
            max_retries=0,
            timeout=_TIMEOUT,
            default_headers=PLAIN,
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,  # texts go to no other server
                event_hooks={"response": [bound]},
            ),
        )

    def __repr__(self) -> str:
        """Name it without its key."""
        return f"OpenAIEmbedder({str(self.name)!r})"

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:  # noqa: ARG002 - one vector for both
        """Return the provider's vectors, in the order of the texts, with its tokens and rate limits."""
        if not texts:
            return Embeddings(vectors=np.empty((0, self.dimensions or 0), np.float32), tokens=0)
        encoded(list(texts))
        body, headers = await self._ask(texts)
        answer = _read(body)
        return Embeddings(vectors=rows_of(answer, len(texts)), tokens=_used(answer), told=told_limits(headers))

    def tokens(self, text: str) -> int:
        """Estimate the tokens: only the server has the tokenizer."""
        return estimated(text)

    def truncates(self, text: str) -> bool:  # noqa: ARG002 - the protocol's signature
        """Return False: a text over the model's limit is refused, not cut."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, texts: Sequence[str]) -> tuple[bytes, Mapping[str, str]]:
        request: dict[str, Any] = {"model": self.name.model, "encoding_format": self._encoding}
        if self.name.dimensions is not None:
            request["dimensions"] = self.name.dimensions
        expect(len(texts), self.dimensions)
        try:
            # Raw, because the SDK parses an answer slowly and does not check it; and the texts in `extra_body`,
            # because it would transform named arguments one by one.
            answer = await self._client.embeddings.with_raw_response.create(
                input="", extra_body={"input": list(texts)}, **request
            )
        except openai.OpenAIError as error:
            refused = translated(error, key=self._key, texts=texts)
            if isinstance(refused, Permanent) and "encoding_format" in str(refused) and self._encoding == "base64":
                self._encoding = "float"
                raise Unavailable(
                    "The provider does not take base64: numbers are asked for from now on.", code="400"
                ) from error
            raise refused from error
        return answer.content, answer.headers


def rows_of(answer: Mapping[str, Any], count: int) -> Vector:
    """Read the vectors from an answer, ordered by `index`."""
    items = answer.get("data")
    if not isinstance(items, list):
        raise Transient("The provider's answer is no list of vectors.", code="bad_answer")
    if len(items) != count:
        raise Transient(f"The provider answered {len(items)} vectors for {count} texts.", code="wrong_count")
    try:
        placed = {item["index"]: _row(item["embedding"]) for item in items}
        rows = [placed[index] for index in range(count)]
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error):  # their messages would quote the answer
        raise Transient("The provider's vectors lack one index each, or are no vectors.", code="bad_answer") from None
    if len({row.shape for row in rows}) != 1:
        raise Unavailable("The provider answered vectors of different dimensions.", code="wrong_dimensions")
    return np.stack(rows).astype(np.float32, copy=False)


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Transient("The provider's answer is cut short or is no list of vectors.", code="bad_answer") from error
    if not isinstance(answer, dict):
        raise Transient("The provider's answer is no list of vectors.", code="bad_answer")
    return answer


def _used(answer: Mapping[str, Any]) -> int | None:
    """Read how many tokens were used; self-hosted servers often do not say."""
    usage = answer.get("usage")
    tokens = usage.get("total_tokens", usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return tokens if type(tokens) is int and tokens >= 0 else None


def _row(value: str | list[float]) -> Vector:
    if isinstance(value, str):
        return np.frombuffer(b64decode(value, validate=True), "<f4")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity, which the check refuses
        row = np.asarray(value, np.float32)
    if row.ndim != 1 or row.size == 0:
        raise ValueError("not a row of numbers")
    return row
