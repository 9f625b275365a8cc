"""What Prometheus reads."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.doors.conftest import World

from embedq.errors import StoreError
from embedq.metrics import TABLE, Metrics
from embedq.telemetry import Event, Telemetry


def figures(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(s.labels.values())): s.value for family in families for s in family.samples}


async def test_a_scrape_shows_how_the_queue_stands(world: World) -> None:
    """Depth per state and collection, coverage, the oldest pending job, pause and workers are read at each scrape."""
    await world.http.post(
        "/collections/notes/records", json={"records": [{"id": str(i), "text": str(i)} for i in range(4)]}
    )
    await world.embed_all("notes", limit=3)
    await world.http.post("/workers/register", json={"id": "w1"})
    await world.http.post("/admin/queue/pause")

    answer = await world.http.get("/metrics")

    assert answer.headers["Content-Type"].startswith("text/plain")
    seen = figures(answer.text)
    assert seen["embedq_database_up", ()] == 1
    assert seen["embedq_queue_jobs", ("notes", "pending")] == 1
    assert seen["embedq_queue_jobs", ("notes", "completed")] == 3
    assert seen["embedq_coverage_ratio", ("notes",)] == 0.75
    assert seen["embedq_oldest_pending_seconds", ("notes",)] >= 0
    assert seen["embedq_queue_paused", ()] == 1
    assert seen["embedq_workers_alive", ()] == len((await world.http.get("/workers")).json()["workers"])
    assert seen["embedq_records_put_total", ()] == 4
    assert seen["embedq_put_to_stored_seconds_count", ()] == 3
    assert seen["embedq_http_request_seconds_count", ("POST", "/collections/{collection}/records")] == 1


async def test_a_database_in_trouble_is_a_figure_not_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the database does not answer, the scrape says so and still shows what was counted."""

    async def fail() -> None:
        raise StoreError("gone")

    monkeypatch.setattr(world.operator, "status", fail)
    seen = figures((await world.http.get("/metrics")).text)

    assert seen["embedq_database_up", ()] == 0
    assert ("embedq_vectors_reused_total", ()) in seen


EVENTS: Sequence[tuple[Event, dict[str, object], tuple[str, tuple[str, ...]], float]] = [
    (Event.PUT, {"records": 7}, ("embedq_records_put_total", ()), 7),
    (Event.SETTLED, {"done": 5, "retry": 2}, ("embedq_jobs_settled_total", ("done",)), 5),
    (Event.JOB_RETRY, {"jobId": "x"}, ("embedq_job_retries_total", ()), 1),
    (Event.JOB_FAILED, {"reason": "quota"}, ("embedq_dead_letters_total", ("quota",)), 1),
    (Event.REUSED, {"count": 9}, ("embedq_vectors_reused_total", ()), 9),
    (Event.LEASE_LOST, {"count": 40, "jobs": ["a"]}, ("embedq_leases_lost_total", ()), 40),
    (Event.RESCUED, {"jobs": ["a", "b"]}, ("embedq_jobs_rescued_total", ()), 2),
    (Event.RECONCILED, {"armed": 3}, ("embedq_jobs_reconciled_total", ()), 3),
    (Event.EMBEDDED, {"texts": 100, "seconds": 0.2}, ("embedq_texts_embedded_total", ()), 100),
    (Event.EMBEDDED, {"texts": 1, "seconds": 0.2}, ("embedq_embed_call_seconds_sum", ()), 0.2),
    (
        Event.EMBEDDED,
        {"texts": 1, "tokens": 42, "model": "fake", "purpose": "query"},
        ("embedq_tokens_used_total", ("fake", "query")),
        42,
    ),
    (Event.STORED, {"count": 4, "seconds": 0.5}, ("embedq_put_to_stored_seconds_sum", ()), 2.0),
    (Event.STORED, {"count": 4, "seconds": 0.5}, ("embedq_put_to_stored_seconds_count", ()), 4),
    (Event.STORED, {"count": 4, "seconds": 0.5}, ("embedq_put_to_stored_seconds_bucket", ("0.25",)), 0),
    (Event.STORED, {"count": 4, "seconds": 0.5}, ("embedq_put_to_stored_seconds_bucket", ("0.5",)), 4),
    (Event.STORED, {"count": 4, "seconds": 1e9}, ("embedq_put_to_stored_seconds_bucket", ("+Inf",)), 4),
    (Event.STORED, {"count": 4, "seconds": 0.5}, ("embedq_vectors_stored_total", ()), 4),
    (Event.SEARCHED, {"mode": "hybrid", "seconds": 0.25}, ("embedq_search_seconds_sum", ("hybrid",)), 0.25),
    (Event.PUT, {"records": 1, "seconds": 0.5}, ("embedq_put_seconds_sum", ()), 0.5),
    (Event.THROTTLED, {"seconds": 9.0}, ("embedq_throttled_total", ()), 1),
    (Event.BUDGET_EMPTY, {"seconds": 9.0}, ("embedq_budget_empty_total", ()), 1),
    (Event.STARTED, {}, ("embedq_events_total", ("started",)), 1),
]


@pytest.mark.parametrize(("event", "facts", "figure", "value"), EVENTS)
def test_each_event_is_counted(
    event: Event, facts: dict[str, object], figure: tuple[str, tuple[str, ...]], value: float
) -> None:
    """An event moves its figure by what it says."""
    metrics = Metrics()

    Telemetry(metrics).emit(event, **facts)

    assert figures(metrics.written(None).decode())[figure] == value


def test_the_table_names_every_figure() -> None:
    """What the reference lists is what a scrape holds, no more and no less."""
    families = text_string_to_metric_families(Metrics().written(None).decode())
    names = {f"{f.name}_total" if f.type == "counter" else f.name for f in families}

    assert names == {name for name, *_ in TABLE}


async def test_budgets_are_shown_by_space(world: World) -> None:
    """A hold of a provider shows with its space's name."""
    await world.http.put("/collections/notes")
    [space] = await world.store.spaces()
    await world.store.hold(space.id, timedelta(seconds=60))

    seen = figures((await world.http.get("/metrics")).text)

    assert 0 < seen["embedq_held_seconds", (str(space),)] <= 60
