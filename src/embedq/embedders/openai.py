"""Everything that speaks the OpenAI embeddings wire: the hosted service, and servers of one's own."""

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import openai

from embedq.embedders.http_answers import checked, encoded
from embedq.embedders.known import known_dimensions
from embedq.embedders.openai_errors import translated
from embedq.errors import Permanent, SettingsError, Transient, Unavailable
from embedq.model import EmbedderName, Vector

KEY, BASE_URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
DEFAULT_URL = "https://api.openai.com/v1"
_TIMEOUT = openai.Timeout(120.0, connect=10.0)  # a second guard: the worker's own deadline comes first


class OpenAIEmbedder:
    """Asks a provider through the official SDK, once per call: retries are the queue's business."""

    max_inputs = 2048
    remote = True

    def __init__(self, name: EmbedderName, *, environment: Mapping[str, str]) -> None:
        """Check the settings and prepare the client; nothing is sent yet."""
        if not name.model:
            raise SettingsError("openai: name the model too, as in openai:text-embedding-3-small.")
        self.name = name
        self.dimensions: int | None = known_dimensions(name)
        self._key = _key(environment)
        self._encoding = "base64"  # a quarter of the bytes; servers that do not know it answer with numbers
        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=_base_url(environment),
            organization=environment.get("OPENAI_ORG_ID"),
            project=environment.get("OPENAI_PROJECT_ID"),
            max_retries=0,
            timeout=_TIMEOUT,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),  # texts go nowhere else
        )

    def __repr__(self) -> str:
        """Name it without its key."""
        return f"OpenAIEmbedder({str(self.name)!r})"

    async def embed(self, texts: Sequence[str]) -> Vector:
        """Answer with the provider's vectors, in the order of the texts, checked."""
        if not texts:
            return np.empty((0, self.dimensions or 0), np.float32)
        encoded(list(texts))
        vectors = rows_of(await self._ask(texts), len(texts))
        vectors = checked(vectors, count=len(texts), dimensions=self.dimensions)
        self.dimensions = vectors.shape[1]
        return vectors

    def truncates(self, text: str) -> bool:  # noqa: ARG002 - the contract's signature
        """Say no: a text over the model's limit is refused, not cut."""
        return False

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, texts: Sequence[str]) -> bytes:
        request: dict[str, Any] = {"model": self.name.model, "encoding_format": self._encoding}
        if self.name.dimensions is not None:
            request["dimensions"] = self.name.dimensions
        try:
            # Raw, because the SDK's own reading of an answer neither checks it nor is fast; and the texts beside the
            # named arguments, which it would look through one by one.
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
        return answer.content


def rows_of(body: bytes, count: int) -> Vector:
    """Read the vectors out of an answer, each at the place its `index` names."""
    items = _items(body)
    if len(items) != count:
        raise Transient(f"The provider answered {len(items)} vectors for {count} texts.", code="wrong_count")
    try:
        placed = {item["index"]: _row(item["embedding"]) for item in items}
        rows = [placed[index] for index in range(count)]
    except (KeyError, TypeError, ValueError, binascii.Error):  # their words would quote the answer
        raise Transient("The provider's vectors lack one index each, or are no vectors.", code="bad_answer") from None
    if len({row.shape for row in rows}) != 1:
        raise Unavailable("The provider answered vectors of different dimensions.", code="wrong_dimensions")
    return np.stack(rows).astype(np.float32, copy=False)


def _items(body: bytes) -> list[dict[str, Any]]:
    try:
        items = json.loads(body)["data"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Transient("The provider's answer is cut short or is no list of vectors.", code="bad_answer") from error
    if not isinstance(items, list):
        raise Transient("The provider's answer is no list of vectors.", code="bad_answer")
    return items


def _row(value: str | list[float]) -> Vector:
    if isinstance(value, str):
        return np.frombuffer(b64decode(value, validate=True), "<f4")
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinity, which the check refuses
        row = np.asarray(value, np.float32)
    if row.ndim != 1 or row.size == 0:
        raise ValueError("not a row of numbers")
    return row


def _key(environment: Mapping[str, str]) -> str:
    key = environment.get(KEY, "").strip()
    if not key:
        raise SettingsError(
            f"{KEY} is not set, and an openai embedder needs it. A server of your own that asks for no key "
            "takes any word."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(f"{KEY} holds characters that no key has (blanks, line ends or beyond ASCII).")
    return key


def _base_url(environment: Mapping[str, str]) -> str:
    url = environment.get(BASE_URL, "").strip() or DEFAULT_URL
    if not _is_web_address(url):  # it is not shown: it may hold a password
        raise SettingsError(
            f"{BASE_URL} must be an http:// or https:// address, such as http://127.0.0.1:8080/v1; "
            "in a password, / is written %2F and @ %40."
        )
    return url


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        readable = parts.port is None or parts.port > 0
    except ValueError:
        return False
    user, _, _ = parts.netloc.rpartition("@")
    odd = "@" in user + parts.path or parts.query or parts.fragment
    return readable and parts.scheme in {"http", "https"} and bool(parts.hostname) and not odd
