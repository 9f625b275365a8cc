"""Seed 002: jobs and workers are managed over HTTP, and rules are found by their project."""

from tests.acceptance.seed_002.rules import Rules


def test_jobs_of_an_attached_table_over_http(rules: Rules) -> None:
    """A job is created, read, listed by status and cancelled by the seed's routes."""
    rules.embedq("pause")
    api = rules.place.up()
    rule = str(rules.read("SEC-001")["id"])

    wanted = {"collection": "rules", "record_id": rule, "force": True, "priority": "urgent"}
    made = api.http.post("/jobs/embedding", json=wanted)
    job = api.job(made.json()["id"])
    listed = {found["record_id"]: found for found in api.jobs(status="pending", collection="rules")}
    cancelled = api.http.delete(f"/jobs/embedding/{job['id']}")

    assert made.status_code == 201
    assert (job["record_id"], job["status"], job["priority"]) == (rule, "pending", "urgent")
    assert len(listed) == 9
    assert listed[rule]["id"] == job["id"]
    assert cancelled.is_success
    assert api.job(job["id"])["status"] == "cancelled"
    api.act("resume")
    api.counted(completed=8, cancelled=1, pending=0)
    assert rules.read("SEC-001")["vector"] is None


def test_workers_over_http(rules: Rules) -> None:
    """A worker elsewhere registers, shows that it lives, and is listed beside our own."""
    api = rules.place.up(EMBEDQ_WORKERS=1)

    made = api.http.post("/workers/register", json={"host": "elsewhere", "pid": 7}).json()
    beat = api.http.post(f"/workers/{made['id']}/heartbeat")
    listed = api.http.get("/workers").json()["workers"]

    assert beat.is_success
    assert {found["host"] == "elsewhere" for found in listed if found["id"] == made["id"]} == {True}
    assert len(listed) == 2


def test_rules_are_found_within_their_project(rules: Rules) -> None:
    """The project is the tenant: a search sees one project's rules only."""
    api = rules.place.up()
    api.embedded(9)
    projects = {row["name"]: str(row["id"]) for row in rules.sql("SELECT * FROM projects")}

    asked = {"query": "which fact does a test prove", "mode": "keyword", "tenant": projects["warehouse"]}
    hits = api.http.post("/collections/rules/search", json=asked).json()["hits"]
    everywhere = api.http.post("/collections/rules/search", json={"query": "proves", "mode": "keyword"}).json()["hits"]

    ours = {str(row["id"]) for row in rules.sql("SELECT id FROM rules WHERE project_id = %s", (projects["warehouse"],))}
    assert {hit["id"] for hit in hits} <= ours
    assert len(ours & {hit["id"] for hit in everywhere}) == 1
    assert len(everywhere) == 2
