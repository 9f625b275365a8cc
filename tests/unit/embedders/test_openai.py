import asyncio
import socket
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from openai import Timeout
from tests.unit.embedders.asking import asked

from embedq.embedders.openai_embedder import OpenAIEmbedder, _used
from embedq.embedding import Allowance, Purpose
from embedq.errors import Critical, EmbedderError, NotNow, Permanent, SettingsError, Transient, Unavailable
from embedq.model import EmbedderName
from embedq.testing.faults import Faults, Kind, Mishap
from embedq.testing.provider import EmbeddingProvider

KEY = "sk-very-secret-key"
TEXTS = [f"a text about subject {number}" for number in range(5)]
NAME = EmbedderName(provider="openai", model="house-model")


def make(base_url: str, name: EmbedderName = NAME) -> OpenAIEmbedder:
    return OpenAIEmbedder(name, environment={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base_url})


@pytest.fixture
async def provider() -> AsyncIterator[EmbeddingProvider]:
    async with EmbeddingProvider(dimensions=32) as running:
        yield running


@pytest.fixture
async def embedder(provider: EmbeddingProvider) -> AsyncIterator[OpenAIEmbedder]:
    made = make(provider.base_url)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("order", "kind", "code"),
    [
        ("400=1", Permanent, "400"),
        ("401=1", Critical, "401"),
        ("403=1", Critical, "403"),
        ("404=1", Unavailable, "404"),
        ("408=1", Transient, "408"),
        ("409=1", Transient, "409"),
        ("413=1", Permanent, "413"),
        ("418=1", Transient, "418"),
        ("422=1", Permanent, "422"),
        ("425=1", Transient, "425"),
        ("429=1", NotNow, "429"),
        ("500=1", Transient, "500"),
        ("503=1", Transient, "503"),
        ("reset=1", Transient, "connection_lost"),
        ("refused=1", Transient, "connection_lost"),
        ("cut=1", Transient, "bad_answer"),
        ("count=1", Transient, "wrong_count"),
        ("duplicate=1", Transient, "bad_answer"),
        ("nan=1", Transient, "not_finite"),
    ],
)
async def test_a_fault_becomes_its_kind(
    provider: EmbeddingProvider, embedder: OpenAIEmbedder, order: str, kind: type[EmbedderError], code: str
) -> None:
    """Each status and each broken answer is translated into one kind, asked for once, and the next call goes well."""
    provider.order(Faults.parse(order))

    with pytest.raises(EmbedderError) as caught:
        await asked(embedder, TEXTS)

    assert type(caught.value) is kind
    assert caught.value.provider_code == code
    assert len(provider.requests) == 1
    assert (await asked(embedder, TEXTS)).shape == (5, 32)


async def test_wrong_dimensions_are_the_embedders_fault(provider: EmbeddingProvider) -> None:
    """Where the dimensions are known, an answer of others is Unavailable: no text is to blame."""
    fixed = make(provider.base_url, EmbedderName(provider="openai", model="house-model", dimensions=16))
    provider.order(Faults.parse("dimensions=1"))

    with pytest.raises(Unavailable) as caught:
        await asked(fixed, TEXTS)
    await fixed.close()

    assert caught.value.provider_code == "wrong_dimensions"


async def test_vectors_are_placed_by_their_index(provider: EmbeddingProvider, embedder: OpenAIEmbedder) -> None:
    """An answer in another order is put back in the texts' order."""
    expected = await asked(embedder, TEXTS)
    provider.order(Faults.parse("shuffled=1"))

    assert np.array_equal(await asked(embedder, TEXTS), expected)


async def test_numbers_and_base64_are_the_same_vectors(provider: EmbeddingProvider, embedder: OpenAIEmbedder) -> None:
    """A server that answers with numbers instead of base64 gives the same bits."""
    packed = await asked(embedder, TEXTS)
    embedder._encoding = "float"

    assert np.array_equal(await asked(embedder, TEXTS), packed)
    assert [request.body["encoding_format"] for request in provider.requests] == ["base64", "float"]


async def test_dimensions_are_sent_only_when_asked_for(provider: EmbeddingProvider, embedder: OpenAIEmbedder) -> None:
    """`@16` reaches the provider and fixes the length; without it the parameter is left out."""
    fixed = make(provider.base_url, EmbedderName(provider="openai", model="house-model", dimensions=16))

    await asked(embedder, TEXTS)
    vectors = await asked(fixed, TEXTS)
    await fixed.close()

    assert vectors.shape == (5, 16)
    assert "dimensions" not in provider.requests[0].body
    assert provider.requests[1].body["dimensions"] == 16


HTTP_DATE = "Wed, 21 Oct 2026 07:28:30 GMT"
ITS_NOW = ("Date", "Wed, 21 Oct 2026 07:28:00 GMT")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((("Retry-After", "2.5"),), timedelta(seconds=2.5)),
        ((("Retry-After", "7"), ("retry-after-ms", "1500")), timedelta(seconds=1.5)),
        ((("Retry-After", HTTP_DATE), ITS_NOW), timedelta(seconds=30)),
        ((("Retry-After", "Mon, 01 Jan 2001 00:00:00 GMT"),), timedelta(0)),
        ((("Retry-After", "-5"),), timedelta(0)),
        ((("Retry-After", "1e300"),), timedelta(days=1)),
        ((("Retry-After", "nan"),), None),
        ((("Retry-After", "soon"),), None),
        ((), None),
    ],
)
async def test_retry_after_is_read_in_every_form(
    provider: EmbeddingProvider,
    embedder: OpenAIEmbedder,
    headers: tuple[tuple[str, str], ...],
    expected: timedelta | None,
) -> None:
    """Seconds, milliseconds and dates are understood; a date is measured by the provider's own clock."""
    provider.order(Faults(script=[Mishap(kind=Kind.STATUS, status=429, headers=headers)]))

    with pytest.raises(NotNow) as caught:
        await asked(embedder, TEXTS)

    assert caught.value.retry_after == expected


async def test_a_date_without_a_clock_is_measured_by_ours(
    provider: EmbeddingProvider, embedder: OpenAIEmbedder
) -> None:
    """A date that comes without the provider's own is taken against this machine's clock."""
    until = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = (("Retry-After", until),)
    provider.order(Faults(script=[Mishap(kind=Kind.STATUS, status=429, headers=headers)]))

    with pytest.raises(NotNow) as caught:
        await asked(embedder, TEXTS)

    assert caught.value.retry_after is not None
    assert timedelta(minutes=9) < caught.value.retry_after <= timedelta(minutes=10)


async def test_a_bad_text_is_refused_and_not_told(provider: EmbeddingProvider, embedder: OpenAIEmbedder) -> None:
    """A text that the provider refuses is permanent; the error does not repeat it."""
    provider.order(Faults(bad=["POISON"]))

    with pytest.raises(Permanent) as caught:
        await asked(embedder, ["a harmless text", "this one is POISON"])

    assert "POISON" not in str(caught.value)
    assert (await asked(embedder, ["a harmless text"])).shape == (1, 32)


async def test_a_lone_surrogate_is_permanent_and_never_sent(
    provider: EmbeddingProvider, embedder: OpenAIEmbedder
) -> None:
    """Text that is not Unicode is refused before anything is sent."""
    with pytest.raises(Permanent):
        await asked(embedder, ["half a pair: \ud83d"])

    assert provider.requests == []


async def test_a_refused_connection_is_nobodys_fault_but_the_providers() -> None:
    """Where nothing listens, no text is charged."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    embedder = make(f"http://127.0.0.1:{port}/v1")

    with pytest.raises(Unavailable) as caught:
        await asked(embedder, TEXTS)

    assert caught.value.provider_code == "unreachable"
    await embedder.close()


async def test_a_name_that_is_not_known_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without an address is the embedder's fault."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # no test asks a resolver outside this machine
    embedder = make("http://no-such-host.invalid/v1")

    with pytest.raises(Unavailable):
        await asked(embedder, TEXTS)

    await embedder.close()


async def test_a_server_without_tls_is_unavailable() -> None:
    """A failed TLS handshake is the embedder's fault."""

    async def speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as server:
        embedder = make(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")

        with pytest.raises(Unavailable) as caught:
            await asked(embedder, TEXTS)

        assert caught.value.provider_code == "unreachable"
        await embedder.close()


async def test_a_call_that_hangs_can_be_given_up(provider: EmbeddingProvider, embedder: OpenAIEmbedder) -> None:
    """A cancelled call ends at once, and the embedder goes on."""
    provider.order(Faults.parse("hang=1"))
    call = asyncio.create_task(asked(embedder, TEXTS))
    await provider.asked()

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await asked(embedder, TEXTS)).shape == (5, 32)


async def test_a_timeout_is_transient(
    provider: EmbeddingProvider, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that does not answer within the client's own limit is transient."""
    provider.order(Faults.parse("hang=1"))
    monkeypatch.setattr(embedder, "_client", embedder._client.with_options(timeout=Timeout(60, read=0.05)))

    with pytest.raises(Transient) as caught:
        await asked(embedder, TEXTS)

    assert caught.value.provider_code == "timeout"


async def test_the_key_is_in_no_error_and_no_repr(provider: EmbeddingProvider) -> None:
    """A server that echoes the key does not bring it into messages, causes or stack traces."""
    echo = Mishap(kind=Kind.STATUS, status=401, message=f"Incorrect API key provided: {KEY}")
    provider.order(Faults(script=[echo]))
    embedder = make(provider.base_url)

    with pytest.raises(Critical) as caught:
        await asked(embedder, TEXTS)

    assert "OPENAI_API_KEY" in str(caught.value)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(caught.value.__cause__) + str(getattr(caught.value.__cause__, "body", ""))
    assert KEY not in repr(embedder)
    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"
    await embedder.close()


async def test_a_server_that_refuses_base64_is_asked_for_numbers(
    provider: EmbeddingProvider, embedder: OpenAIEmbedder
) -> None:
    """The refusal charges no text, and from then on numbers are asked for."""
    refusal = Mishap(kind=Kind.STATUS, status=400, message="encoding_format base64 is not supported")
    provider.order(Faults(script=[refusal]))

    with pytest.raises(Unavailable):
        await asked(embedder, TEXTS)

    assert (await asked(embedder, TEXTS)).shape == (5, 32)
    assert provider.requests[-1].body["encoding_format"] == "float"


@pytest.mark.parametrize(
    ("environment", "variable"),
    [
        ({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": "  "}, "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": "two words"}, "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": "schlüssel"}, "OPENAI_API_KEY"),
        ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "localhost:8080"}, "OPENAI_BASE_URL"),
        ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://"}, "OPENAI_BASE_URL"),
    ],
)
def test_wrong_settings_are_named(environment: dict[str, str], variable: str) -> None:
    """A missing or impossible key or address stops the start, names the variable and does not show the key."""
    with pytest.raises(SettingsError, match=variable) as caught:
        OpenAIEmbedder(NAME, environment=environment)

    shown = environment["OPENAI_API_KEY"].strip()
    assert not shown or shown not in str(caught.value)


def test_a_model_must_be_named() -> None:
    """`openai` alone says nothing about the vectors."""
    with pytest.raises(SettingsError, match="text-embedding-3-small"):
        OpenAIEmbedder(EmbedderName(provider="openai", model=""), environment={"OPENAI_API_KEY": KEY})


async def test_tokens_and_limits_are_what_the_provider_said(
    provider: EmbeddingProvider, embedder: OpenAIEmbedder
) -> None:
    """The usage of the body and the limits of the headers come with the vectors."""
    provider.headers = (
        ("x-ratelimit-limit-requests", "3000"),
        ("x-ratelimit-remaining-requests", "2999"),
        ("x-ratelimit-reset-requests", "20ms"),
        ("x-ratelimit-remaining-tokens", "999990"),
    )

    answer = await embedder.embed(["one two", "three"], Purpose.DOCUMENT)

    assert answer.tokens == 3
    assert answer.told is not None
    assert answer.told.requests == Allowance(limit=3000, remaining=2999, reset_after=timedelta(milliseconds=20))
    assert answer.told.tokens == Allowance(remaining=999_990)


@pytest.mark.parametrize("usage", [None, {}, [], {"total_tokens": -1}, {"total_tokens": "9"}, {"total_tokens": True}])
def test_a_usage_that_is_none_is_unknown(usage: object) -> None:
    """Servers of one's own leave it out or write something else: then nobody knows."""
    assert _used({"usage": usage}) is None


def test_hosted_models_have_limits_of_tokens(provider: EmbeddingProvider) -> None:
    """A model of the hosted service is known with its limits; one of another server has those of no one."""
    hosted = make(provider.base_url, EmbedderName(provider="openai", model="text-embedding-3-small"))

    assert (hosted.limits.tokens_per_text, hosted.limits.tokens_per_call) == (8192, 300_000)
    assert make(provider.base_url).limits.tokens_per_call is None
