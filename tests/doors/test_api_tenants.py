"""A tenant on every route: what is another's answers as if it were not there."""

from typing import Any

import pytest
from httpx import AsyncClient
from tests.doors.conftest import World, problem

from embedq.errors import NotFound
from embedq.model import JobFilter

RECORD = "/collections/notes/records/{id}"
# Each with a record's or a job's place in it, and what it must not do to another tenant's.
BY_RECORD: list[tuple[str, str, Any]] = [
    ("GET", RECORD, None),
    ("GET", RECORD + "?include=vector", None),
    ("PATCH", RECORD, {"text": "changed"}),
    ("PATCH", RECORD, {"text": "changed", "tenant": "ours"}),
    ("DELETE", RECORD, None),
    ("DELETE", RECORD + "?purge=true", None),
    ("POST", RECORD + "/regenerate", None),
    ("POST", "/jobs/embedding", {"collection": "notes", "record_id": "{id}", "force": True}),
]
BY_JOB = [
    ("GET", "/jobs/embedding/{job}"),
    ("DELETE", "/jobs/embedding/{job}"),
    ("POST", "/admin/dead/{job}/replay"),
]


async def ask(http: AsyncClient, method: str, path: str, body: Any = None) -> Any:  # noqa: ANN401 whatever is sent and answered
    """Ask as the tenant `ours`: in the query, or in the body where the route has its record there."""
    if path == "/jobs/embedding":
        return await http.request(method, path, json={**body, "tenant": "ours"})
    path += ("&" if "?" in path else "?") + "tenant=ours"
    return await http.request(method, path, json=body)


@pytest.fixture
async def http(world: World) -> AsyncClient:
    """Hold a record of each of two tenants, and one of nobody's."""
    records = [{"id": name, "text": f"text of {name}", "tenant": name} for name in ("ours", "theirs")]
    await world.http.post("/collections/notes/records", json={"records": [*records, {"id": "open", "text": "any"}]})
    return world.http


def named(body: Any, id_: str) -> Any:  # noqa: ANN401 what JSON holds
    return {**body, "record_id": id_} if body and "record_id" in body else body


@pytest.mark.parametrize(("method", "path", "body"), BY_RECORD)
@pytest.mark.parametrize("id_", ["theirs", "open"])
async def test_anothers_record_is_not_there(
    world: World, http: AsyncClient, method: str, path: str, body: dict[str, Any] | None, id_: str
) -> None:
    """404 in the very words of an id that does not exist, and nothing is changed."""
    before, jobs = await world.client.get("notes", id_), (await world.operator.jobs()).items

    refused = problem(await ask(http, method, path.format(id=id_), named(body, id_)), 404, "not-found")
    absent = problem(await ask(http, method, path.format(id="absent"), named(body, "absent")), 404, "not-found")

    assert {**refused, "detail": refused["detail"].replace(id_, "absent")} == absent
    assert (await world.client.get("notes", id_), (await world.operator.jobs()).items) == (before, jobs)


@pytest.mark.parametrize(("method", "path", "body"), BY_RECORD)
async def test_ones_own_record_is_there(http: AsyncClient, method: str, path: str, body: dict[str, Any] | None) -> None:
    """The tenant's own record is read and changed as without a tenant."""
    assert (await ask(http, method, path.format(id="ours"), named(body, "ours"))).status_code < 300


@pytest.mark.parametrize(("method", "path"), BY_JOB)
@pytest.mark.parametrize("id_", ["theirs", "open"])
async def test_anothers_job_is_not_there(world: World, http: AsyncClient, method: str, path: str, id_: str) -> None:
    """404 in the very words of a job that does not exist; another tenant's is neither cancelled nor replayed."""
    await world.fail_all()
    before = (await world.operator.jobs()).items
    job = next(job.id for job in before if job.record_id == id_)

    refused = problem(await ask(http, method, path.format(job=job)), 404, "not-found")
    absent = problem(await ask(http, method, path.format(job="999999")), 404, "not-found")

    assert refused["detail"].replace(repr(job), "'999999'") == absent["detail"]
    assert (await world.operator.jobs()).items == before


async def test_lists_hold_ones_own(world: World, http: AsyncClient) -> None:
    """Records, jobs, dead letters and their causes are a tenant's own; so is what is armed again."""
    own = "tenant=ours"
    listed = (await http.get(f"/collections/notes/records?{own}")).json()["records"]
    assert [record["id"] for record in listed] == ["ours"]
    assert [job["record_id"] for job in (await http.get(f"/jobs/embedding?{own}")).json()["jobs"]] == ["ours"]
    await world.fail_all()

    assert [job["record_id"] for job in (await http.get(f"/admin/dead?{own}")).json()["jobs"]] == ["ours"]
    assert (await http.get(f"/admin/dead/stats?{own}")).json()["total"] == 1
    assert (await http.post("/admin/dead/replay", json={"tenant": "ours"})).json()["replayed"]["total"] == 1
    assert (await http.get(f"/admin/dead?{own}")).json()["jobs"] == []
    await world.fail_all()
    assert (await http.post(f"/admin/queue/retry-failed?{own}")).json()["retried"]["total"] == 1
    assert len((await http.get("/admin/dead")).json()["jobs"]) == 2


@pytest.mark.parametrize("tenant", ["", "a%00b", "x" * 600])
@pytest.mark.parametrize(
    "path",
    ["/collections/notes/records", RECORD.format(id="ours"), "/jobs/embedding", "/admin/dead", "/admin/dead/stats"],
)
async def test_what_is_no_tenant_is_refused(http: AsyncClient, path: str, tenant: str) -> None:
    """A blank tenant is a mistake, not everybody."""
    problem(await http.get(f"{path}?tenant={tenant}"), 422, "invalid")


async def test_python_asks_for_a_tenant_too(world: World, http: AsyncClient) -> None:
    """Deleting many takes one's own; waiting for another's is refused; the operator's lists take a tenant."""
    del http
    assert await world.client.delete("notes", ["ours", "theirs", "open"], tenant="ours") == ["ours"]
    with pytest.raises(NotFound):
        await world.client.wait("notes", ["theirs"], timeout=0, tenant="ours")
    await world.embed_all()
    assert (await world.client.wait("notes", ["theirs"], timeout=0, tenant="theirs")).keys() == {"theirs"}
    assert [job.record_id for job in (await world.operator.jobs(JobFilter(tenant="theirs"))).items] == ["theirs"]
