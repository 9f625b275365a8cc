"""Bad days: the server's disk is full."""

from pathlib import Path

from tests.acceptance.fullness import fill, put_until_full
from tests.acceptance.load import UNREACHED, Writer
from tests.acceptance.mounts import server_disk
from tests.acceptance.postgres.conftest import MakeServer
from tests.acceptance.postgres.truth import check_truth, facts_of
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

from embedq.testing.postgres import PostgresFailed, PostgresServer

FULL = 507
# Once down it stays down: its own attempts to come back would find room for a moment, and hide that it fell.
LITTLE_WAL = {"min_wal_size": "32MB", "max_wal_size": "32MB", "wal_keep_size": "0", "restart_after_crash": "off"}


async def test_full_tables_refuse_writes_and_work_goes_on_when_there_is_space(
    server: PostgresServer, tmp_path: Path
) -> None:
    """A write that finds no space is answered 507 and not kept; with space again all that was taken is embedded."""
    with server_disk("40m") as disk:
        server.query(f"CREATE TABLESPACE small LOCATION '{disk}'")
        server.query("CREATE DATABASE notes TABLESPACE small")
        place = Place(tmp_path, server.url("notes"))
        try:
            api = place.up()
            api.put({"id": "first", "text": "first"})
            api.embedded(1)
            fill(disk / "ballast")

            acknowledged = put_until_full(api)
            assert api.http.get("/collections/notes/records/first").is_success
            (disk / "ballast").unlink()

            api.put({"id": "last", "text": "last"})
            api.embedded(len(acknowledged) + 2)
            listed = api.http.get("/collections/notes/records", params={"limit": 1000}).json()["records"]
            assert {record["id"] for record in listed} == {"first", *acknowledged, "last"}
            assert (await facts_of(server.url("notes")))["current"] == len(acknowledged) + 2
            assert len(place.embedded_hashes()) == len(acknowledged) + 2
            assert api.leave() == 0
        finally:
            place.close()
            server.kill()


async def test_a_server_that_fell_for_want_of_space_loses_nothing(make_server: MakeServer, tmp_path: Path) -> None:
    """No room for its journal takes PostgreSQL down: writes are refused until it is back, and then all goes on."""
    with server_disk("160m") as disk:
        server = make_server(directory=disk, settings=LITTLE_WAL)
        place = Place(tmp_path, server.url())
        try:
            api = place.serve()
            place.work(EMBEDQ_FAKE_FAULTS="latency=0.03", EMBEDQ_BATCH_SIZE=20)
            writer = Writer(api, bears={UNREACHED, FULL})
            writer.writes_on(50)
            until(lambda: has_fallen(server, disk / "ballast"), "a server that fell", patience=40)

            (disk / "ballast").unlink()
            server.restart(immediate=True)
            writer.writes_on()
            writer.finish()

            assert writer.refused
            await check_truth(place, api, writer)
        finally:
            place.close()
            server.kill()


def has_fallen(server: PostgresServer, ballast: Path) -> bool:
    """Leave the server no room, and let it write a little more; say whether that took it down."""
    fill(ballast)
    try:
        server.query("SELECT pg_switch_wal()")
    except PostgresFailed:
        return server.pid is None  # its last words found no room either
    return False
