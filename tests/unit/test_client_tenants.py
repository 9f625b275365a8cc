"""A record changes hands right before an act for the tenant that it had: to that act it is as if it was not there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from embedq.app import App, load, start
from embedq.errors import NotFound
from embedq.model import JobFilter, JobStatus

OURS, THEIRS = "ours", "theirs"
Move = Callable[[], Awaitable[object]]


@pytest.fixture
def postgres_template(installed: str) -> str:
    """Copy a database that has the schema."""
    return installed


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    url = f"sqlite:///{tmp_path}/n.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    async with start(load(url=url, embedder="fake@8"), quiet=True) as opened:
        await opened.client.put("notes", [{"id": "n", "text": "ours", "tenant": OURS}])
        yield opened


async def change_hands(app: App) -> None:
    """Have the record purged, and its id put again by somebody else."""
    await app.client.delete("notes", ["n"], purge=True)
    await app.client.put("notes", [{"id": "n", "text": "theirs", "tenant": THEIRS}])


def before(patch: pytest.MonkeyPatch, app: App, name: str, move: Move) -> None:
    """Let something happen after all that is looked at, and right before the store is asked to act."""
    act = getattr(app.store, name)

    async def slipped(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 whatever the store takes and gives
        patch.undo()
        await move()
        return await act(*arguments, **options)

    patch.setattr(app.store, name, slipped)


async def job(app: App, status: JobStatus | None = None) -> str:
    [found] = (await app.operator.jobs(JobFilter(status=status))).items
    return found.id


@pytest.mark.parametrize("purge", [False, True])
async def test_a_delete_does_not_take_anothers_record(
    app: App, monkeypatch: pytest.MonkeyPatch, *, purge: bool
) -> None:
    """It answers as if there was none."""
    before(monkeypatch, app, "delete", lambda: change_hands(app))

    assert await app.client.delete("notes", ["n"], purge=purge, tenant=OURS) == []

    assert (await app.client.get("notes", "n")).text == "theirs"


async def test_a_regeneration_does_not_pay_for_anothers_record(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of theirs is armed: their job stays the one that they cancelled."""

    async def move() -> None:
        await change_hands(app)
        await app.operator.cancel(await job(app))

    before(monkeypatch, app, "enqueue", move)

    with pytest.raises(NotFound):
        await app.client.regenerate("notes", "n", tenant=OURS)

    assert await job(app, JobStatus.CANCELLED)


async def test_a_cancellation_does_not_end_anothers_job(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has the id that it had, and is theirs."""
    known = await job(app)
    before(monkeypatch, app, "cancel", lambda: change_hands(app))

    with pytest.raises(NotFound):
        await app.operator.cancel(known, tenant=OURS)

    assert await job(app, JobStatus.PENDING) == known


async def test_a_replay_does_not_revive_anothers_job(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have cancelled stays cancelled."""
    known = await job(app)
    await app.operator.cancel(known)

    async def move() -> None:
        await change_hands(app)
        await app.operator.cancel(known)

    before(monkeypatch, app, "revive", move)

    with pytest.raises(NotFound):
        await app.operator.replay(known, tenant=OURS)

    assert await job(app, JobStatus.CANCELLED) == known
