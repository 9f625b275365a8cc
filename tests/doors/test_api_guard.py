"""Who may ask what."""

import pytest
from httpx import AsyncClient
from tests.doors.conftest import Make, problem

KEY = {"Authorization": "Bearer full-key-of-the-test"}
READ = {"Authorization": "Bearer read-key-of-the-test"}
KEYS = {"api_key": "full-key-of-the-test", "read_key": "read-key-of-the-test"}
READS = [
    ("GET", "/collections"),
    ("GET", "/admin/queue/status"),
    ("GET", "/metrics"),
]
OPEN = ["/", "/docs", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/docs/docs.js", "/openapi.json"]
WRITES = [
    ("PUT", "/collections/notes"),
    ("DELETE", "/collections/notes"),
    ("POST", "/collections/search/records"),
    ("POST", "/collections/a%2Fsearch"),
    ("POST", "/collections/a%2Fb/records/search/regenerate"),
    ("POST", "/admin/queue/pause"),
    ("POST", "/admin/dead/replay"),
    ("POST", "/jobs/embedding"),
    ("POST", "/workers/register"),
]


@pytest.mark.parametrize(("method", "path"), READS + WRITES)
async def test_every_route_asks_for_a_key(make: Make, method: str, path: str) -> None:
    """Where a key is set, no route answers without it, nor with a wrong one, nor by another scheme."""
    http = (await make(**KEYS)).http

    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic full-key-of-the-test"},
        {"Authorization": "full-key-of-the-test"},
    ):
        answer = await http.request(method, path, headers=headers)
        problem(answer, 401, "unauthorized")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", OPEN)
async def test_a_browser_opens_the_docs_before_it_has_a_key(make: Make, path: str) -> None:
    """The pages and what they load need no key, and hold no data: they are the same for everybody."""
    world = await make(**KEYS)
    stranger = await world.http.get(path)

    await world.client.put("hidden-name", [{"id": "a", "text": "hidden text"}])

    assert stranger.status_code == 200
    assert (await world.http.get(path, headers=KEY)).content == stranger.content
    assert b"hidden" not in (await world.http.get("/", headers=KEY)).content


async def test_the_docs_take_the_key(make: Make) -> None:
    """The schema names the bearer key, so that the page asks for it and sends it; what is open is said to be so."""
    schema = (await (await make(**KEYS)).http.get("/openapi.json")).json()

    assert schema["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}
    assert schema["security"] == [{"key": []}]
    assert schema["paths"]["/health"]["get"]["security"] == [{}, {"key": []}]


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_no_site_can_frame_the_pages(make: Make, path: str) -> None:
    """Who types a key into the page types it into no other site's frame, and no foreign script runs there."""
    policy = (await (await make(**KEYS)).http.get(path, headers={"Accept": "text/html"})).headers[
        "Content-Security-Policy"
    ]

    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert policy.startswith("default-src 'none';" if path == "/" else "default-src 'self';")


@pytest.mark.parametrize("path", OPEN)
async def test_without_a_key_the_pages_too_are_for_this_machine(http: AsyncClient, path: str) -> None:
    """A foreign name is refused there as everywhere."""
    problem(await http.get(path, headers={"Host": "evil.example"}), 403, "forbidden")


@pytest.mark.parametrize("key", ["", "full-ke", "full-keys", "FULL-KEY", "full", "read-ke", "full-key read-key"])
async def test_a_part_of_a_key_is_no_key(make: Make, key: str) -> None:
    """A key is shown whole, or it is none."""
    http = (await make(**KEYS)).http

    problem(await http.get("/collections", headers={"Authorization": f"Bearer {key}"}), 401, "unauthorized")


@pytest.mark.parametrize(("method", "path"), READS)
async def test_the_read_key_reads(make: Make, method: str, path: str) -> None:
    """The read key opens GET routes."""
    http = (await make(**KEYS)).http

    assert (await http.request(method, path, headers=READ)).status_code == 200


async def test_the_read_key_searches(make: Make) -> None:
    """The read key may search, though that is a POST."""
    http = (await make(**KEYS)).http
    await http.put("/collections/notes", headers=KEY)

    assert (await http.post("/collections/notes/search", json={"query": "x"}, headers=READ)).status_code == 200


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_the_read_key_does_not_write(make: Make, method: str, path: str) -> None:
    """The read key opens no route that changes anything, whatever its path looks like."""
    http = (await make(**KEYS)).http

    problem(await http.request(method, path, headers=READ), 403, "forbidden")


async def test_the_full_key_opens_all(make: Make) -> None:
    """The full key writes."""
    http = (await make(**KEYS)).http

    assert (await http.post("/collections/n/records", json={"id": "a", "text": "x"}, headers=KEY)).status_code == 201


async def test_health_needs_no_key_and_readiness_tells_only_keyholders(make: Make) -> None:
    """/health answers anybody; /health/ready says yes or no to anybody, and details only with a key."""
    http = (await make(**KEYS)).http

    assert (await http.get("/health")).status_code == 200
    assert (await http.get("/health/ready")).json().keys() == {"status"}
    assert (await http.get("/health/ready", headers={"Authorization": "Bearer wrong"})).json().keys() == {"status"}
    assert "workers" in (await http.get("/health/ready", headers=READ)).json()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8400",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[::1",
        "evil.example@localhost",
        "localhost, evil.example",
    ],
)
async def test_a_foreign_host_is_refused_without_a_key(http: AsyncClient, host: str) -> None:
    """A name that was bent to point here (DNS rebinding) is not served."""
    problem(await http.post("/admin/queue/pause", headers={"Host": host}), 403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1:8400", "[::1]:8400", "LOCALHOST"])
async def test_loopback_hosts_are_served(http: AsyncClient, host: str) -> None:
    """The loopback's own names are served on any port."""
    assert (await http.get("/health", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "garbage", "http://evil.example\\@localhost"],
)
async def test_a_foreign_page_cannot_pause_the_queue(http: AsyncClient, origin: str) -> None:
    """A request of another site's page is refused where no key is set, and nothing is paused."""
    problem(await http.post("/admin/queue/pause", headers={"Origin": origin}), 403, "forbidden")

    assert (await http.get("/admin/queue/status")).json()["paused"] is False


async def test_a_page_of_this_machine_is_served(http: AsyncClient) -> None:
    """The dashboard's own requests carry a loopback origin."""
    assert (await http.post("/admin/queue/pause", headers={"Origin": "http://127.0.0.1:8400"})).status_code == 200
