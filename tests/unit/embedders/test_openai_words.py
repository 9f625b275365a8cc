"""What a provider's refusal looks like to people."""

import traceback

import httpx
import openai
import pytest
from tests.unit.embedders.asking import asked

from embedq.embedders.openai_embedder import OpenAIEmbedder, rows_of
from embedq.embedders.openai_errors import translated
from embedq.errors import Permanent, SettingsError, Transient, Unavailable
from embedq.model import EmbedderName
from embedq.testing.faults import Faults, Kind, Mishap
from embedq.testing.provider import EmbeddingProvider

KEY = "sk-very-secret-key"
TEXT = "a text that must not be told"


def refused(status: int, body: object, message: str) -> str:
    response = httpx.Response(status, request=httpx.Request("POST", "http://127.0.0.1/v1/embeddings"))
    return str(translated(openai.APIStatusError(message, response=response, body=body), key=KEY, texts=[TEXT]))


@pytest.mark.parametrize(
    ("status", "body", "message", "said"),
    [
        (400, {"message": "input too long"}, "Error code: 400 - {...}", "The provider answered 400: input too long"),
        (
            401,
            {"message": "Wrong."},
            "Error code: 401 - {...}",
            "The provider answered 401: Wrong. Check OPENAI_API_KEY.",
        ),
        (422, {"detail": "odd"}, "Error code: 422 - {'detail': 'odd'}", "The provider answered 422: {'detail': 'odd'}"),
        (502, None, "Bad gateway", "The provider answered 502: Bad gateway"),
        (500, None, "Error code: 500", "The provider answered 500"),
    ],
)
def test_the_providers_words_are_said_once(status: int, body: object, message: str, said: str) -> None:
    """The status stands once, then the provider's own message, then what to do."""
    assert refused(status, body, message) == said


def test_neither_key_nor_text_is_told() -> None:
    """Whatever a server echoes in its message."""
    said = refused(400, {"message": f"{KEY} may not send {TEXT!r}"}, f"Error code: 400 - {KEY} {TEXT}")

    assert said == f"The provider answered 400: *** may not send '<text of {len(TEXT)} characters>'"


async def test_an_echo_of_the_text_is_in_no_error_and_no_stack() -> None:
    """A server that quotes a text, cut and escaped, does not bring it into messages, causes or stack traces."""
    text = "Frau Nägeli, PIN 4711, lives in the Bahnhofstrasse"
    echo = Mishap(kind=Kind.STATUS, status=400, message=f"[{{'input': {text[:40]!a}, 'type': 'too_long'}}]")

    async with EmbeddingProvider(dimensions=32, faults=Faults(script=[echo])) as provider:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": provider.base_url}
        embedder = OpenAIEmbedder(EmbedderName(provider="openai", model="some-model"), environment=environment)
        with pytest.raises(Permanent) as caught:
            await asked(embedder, [text])
        await embedder.close()

    stack = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__cause__)
    assert "too_long" in str(caught.value)
    assert not [word for word in ("geli", "4711", "Bahnhof") if word in stack]
    assert getattr(caught.value.__cause__, "body", None) is None


def test_a_vector_that_is_the_text_is_not_told() -> None:
    """A server that answers with the text where a vector belongs does not bring it into a stack trace."""
    text = "Frau Meierhans, PIN 4711"

    with pytest.raises(Transient) as caught:
        rows_of({"data": [{"index": 0, "embedding": [text]}]}, 1)

    assert "Meierhans" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "http://u:S3CRET/x@h/v1",
        "http://u:12/S3CRET@h/v1",
        "http://u:S3CRET#@h",
        "http://[u:S3CRET@h",
        "http://u:S3CRET@h:x",
    ],
)
def test_an_address_that_cannot_be_used_is_not_shown(url: str) -> None:
    """A base URL with a password that is not escaped stops the start without a word of it."""
    environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}

    with pytest.raises(SettingsError, match="OPENAI_BASE_URL") as caught:
        OpenAIEmbedder(EmbedderName(provider="openai", model="some-model"), environment=environment)

    assert "S3CRET" not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__cause__ is None


async def test_texts_do_not_follow_a_redirect() -> None:
    """A provider that points elsewhere is at fault, and nothing is sent to the other address."""
    async with EmbeddingProvider(dimensions=32) as other:
        moved = Mishap(kind=Kind.STATUS, status=307, headers=(("Location", f"{other.base_url}/embeddings"),))
        async with EmbeddingProvider(dimensions=32, faults=Faults(script=[moved])) as provider:
            environment = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": provider.base_url}
            embedder = OpenAIEmbedder(EmbedderName(provider="openai", model="some-model"), environment=environment)
            with pytest.raises(Unavailable, match="check OPENAI_BASE_URL"):
                await asked(embedder, [TEXT])
            await embedder.close()

        assert other.requests == []


@pytest.mark.parametrize(
    "echo",
    [KEY.replace("-", "%2D"), KEY.replace("-", "\\u002d"), KEY.replace("-", "&#45;"), KEY.upper()],
    ids=["in a URL", "in JSON", "in HTML", "in capitals"],
)
def test_an_escaped_key_is_not_told(echo: str) -> None:
    """What is escaped is read before the key is looked for: it must not come out of it later."""
    said = refused(400, {"message": f"bad key {echo} in request"}, "Error code: 400")

    assert KEY not in said.lower()
    assert "***" in said
