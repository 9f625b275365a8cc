import asyncio
import json
import sys

import pytest
from tests.unit.embedders.asking import asked

from embedq.embedders.openai_embedder import OpenAIEmbedder
from embedq.errors import NotNow, Unavailable
from embedq.model import EmbedderName
from embedq.testing.faults import FakeEmbedder
from embedq.testing.provider import EmbeddingProvider

NAME = EmbedderName(provider="openai", model="house-model")


async def test_it_runs_as_a_process_of_its_own() -> None:
    """`python -m embedq.testing.provider` names its address, plays its script and serves real vectors."""
    arguments = ("-m", "embedq.testing.provider", "--dimensions", "48", "--faults", "429=1:2.5", "--latency", "0.001")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        base_url = json.loads(await process.stdout.readline())["base_url"]
        embedder = OpenAIEmbedder(NAME, environment={"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": base_url})

        with pytest.raises(NotNow):
            await asked(embedder, ["a text"])

        assert (await asked(embedder, ["a text"])).shape == (1, 48)
        await embedder.close()
    finally:
        process.terminate()
        await process.wait()


async def test_its_vectors_are_the_fake_embedders() -> None:
    """Both doors to rehearsal give a text the same vector."""
    async with EmbeddingProvider() as provider:
        environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": provider.base_url}
        embedder = OpenAIEmbedder(NAME, environment=environment)
        served = await asked(embedder, ["a text"])
        await embedder.close()

    assert (served == await asked(FakeEmbedder(EmbedderName(provider="fake", model="")), ["a text"])).all()


async def test_another_route_is_not_found() -> None:
    """A wrong base URL is answered 404, as a real server would."""
    async with EmbeddingProvider() as provider:
        environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": provider.base_url + "/wrong"}
        embedder = OpenAIEmbedder(NAME, environment=environment)

        with pytest.raises(Unavailable, match="OPENAI_BASE_URL"):
            await asked(embedder, ["a text"])

        await embedder.close()
    assert provider.requests == []
