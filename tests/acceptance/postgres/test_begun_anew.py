"""Bad days: the schema is dropped and begun anew under live processes, and a space's number is another model's."""

from tests.acceptance.processes import Api, Place, Process
from tests.acceptance.provider import Provider
from tests.acceptance.waiting import until

from embedq.embedding import Purpose
from embedq.model import EmbedderName
from embedq.testing.faults import FakeEmbedder
from embedq.testing.postgres import PostgresServer

TEXTS = [f"text of {number}" for number in range(5)]
ONE, TWO = "fake:one@16", "fake:two@16"  # vectors of one length, so that nothing but the name tells them apart
DROP = "DROP SCHEMA embedq CASCADE"
SPACES = "SELECT string_agg(id || ' ' || model, ', ') FROM embedq.space"


def put(api: Api) -> None:
    api.put(*({"id": f"r{number}", "text": text} for number, text in enumerate(TEXTS)))


def begin_anew(place: Place) -> Api:
    """Install the schema again, and put the same texts for another model."""
    assert place.run("init").returncode == 0
    api = place.serve(EMBEDQ_EMBEDDER=TWO)
    put(api)
    return api


async def check_model_two(api: Api, server: PostgresServer, worker: Process) -> None:
    """See that the worker goes on, and that every vector is of the model that the space has now."""
    api.embedded(5)
    embedder = FakeEmbedder(EmbedderName(provider="fake", model="two", dimensions=16))
    expected = [[float(value) for value in row] for row in (await embedder.embed(TEXTS, Purpose.DOCUMENT)).vectors]
    assert server.query(SPACES) == "1 two"
    assert [api.record(f"r{number}")["vector"] for number in range(5)] == expected
    assert worker.popen.poll() is None


async def test_a_live_worker_embeds_a_new_schema_by_its_own_model(own_place: Place, server: PostgresServer) -> None:
    """It waits without a schema, and the new one is as good as a resume: the space's number has another model there."""
    api = own_place.serve(EMBEDQ_EMBEDDER=ONE)
    worker = own_place.work(EMBEDQ_EMBEDDER=ONE, EMBEDQ_HEARTBEAT_SECONDS=0.2)
    put(api)
    api.embedded(5)
    assert server.query(SPACES) == "1 one"

    server.query(DROP)
    worker.heard("store_trouble", act="halt")
    api = begin_anew(own_place)

    await check_model_two(api, server, worker)


def test_a_live_worker_learns_the_dimensions_of_a_new_schema(own_place: Place, server: PostgresServer) -> None:
    """The space is that of before, and nobody knows its dimensions yet: the worker's own memory does not count."""
    with Provider() as provider:
        settings = {**provider.settings, "EMBEDQ_HEARTBEAT_SECONDS": 0.2}
        api = own_place.serve(**settings)
        worker = own_place.work(**settings)
        put(api)
        api.embedded(5)

        server.query(DROP)
        worker.heard("store_trouble", act="halt")
        assert own_place.run("init").returncode == 0
        put(api)

        api.embedded(5)
        assert server.query("SELECT dimensions FROM embedq.space") == "16"


async def test_what_a_worker_had_in_hand_is_not_stored_in_a_new_schema(
    own_place: Place, server: PostgresServer
) -> None:
    """The old model answers for the same texts when the new schema is there: nothing of it is stored or reused."""
    with Provider(held=True) as provider:
        settings = {**provider.settings, "EMBEDQ_EMBEDDER": "openai:one@16", "EMBEDQ_HEARTBEAT_SECONDS": 0.2}
        api = own_place.serve(**settings)
        worker = own_place.work(**settings, EMBEDQ_WORKERS=1)  # so that nobody beside it looks for spaces meanwhile
        put(api)
        until(lambda: provider.texts, "a call of the first model")
        assert server.query(SPACES) == "1 one"

        server.query(DROP)
        api = begin_anew(own_place)
        provider.release()

        await check_model_two(api, server, worker)
        assert sorted(provider.texts) == sorted(TEXTS)  # it was asked once, for what was put before
