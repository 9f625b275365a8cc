"""A rolling upgrade: workers of an older version run while a newer one installs its functions."""

import re
import shutil
from pathlib import Path

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

import embedq

SOURCE = Path(embedq.__file__).parent
CALLED = "lease|complete_and_lease|renew|put_json"  # functions that the older version calls by other names
BEFORE, AFTER = 400, 50  # records
SLOW = {"EMBEDQ_BATCH_SIZE": 10, "EMBEDQ_FAKE_FAULTS": "latency=0.2", "EMBEDQ_LEASE_SECONDS": 3}
SHORT = {"EMBEDQ_HEARTBEAT_SECONDS": 0.3, "EMBED_JOB_RECOVERY_INTERVAL": 300}


@pytest.fixture
def postgres_template() -> str:
    """Begin with an empty database: the older version installs itself."""
    return "template1"


def older_version(folder: Path) -> dict[str, str]:
    """Make an embedq whose functions are called otherwise, with an older number; answer with how it is found.

    What it calls is gone once this version is installed, as it is between any two versions whose functions differ.
    """
    made = shutil.copytree(SOURCE, folder / "older" / "embedq", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (made / "stores" / "postgres").rglob("*.py"):
        path.write_text(re.sub(rf"\bembedq\.({CALLED})\(", r"embedq.older_\1(", path.read_text()))
    for path in (made / "stores" / "postgres" / "functions").glob("*.sql"):
        path.write_text(re.sub(rf"\b({CALLED})(?=\(|')", r"older_\1", path.read_text()))
    init = made / "__init__.py"
    init.write_text(re.sub(r'__version__ = ".*"', '__version__ = "0.1.9"', init.read_text()))
    return {"PYTHONPATH": str(folder / "older")}


async def test_no_job_is_lost_while_a_new_version_takes_over(place: Place, tmp_path: Path) -> None:
    """Workers of the old version refuse clearly once the new functions are there; the new version does their work."""
    older = older_version(tmp_path)
    assert place.run("init", **older).returncode == 0
    old = place.work(**older, **SLOW, **SHORT)
    assert old.heard("started")["version"] == "0.1.9"
    first = place.serve(**older)
    first.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(BEFORE)))
    until(lambda: old.log("settled"), "some batches settled by the old version")

    upgrade = place.run("init")

    assert upgrade.returncode == 0, upgrade.stderr
    refusal = old.heard("store_trouble", act="halt")
    assert "the same version everywhere" in str(refusal["error"])
    first.kill()
    api = place.serve()
    api.put(*({"id": f"m{number}", "text": f"more {number}"} for number in range(AFTER)))
    place.work(**SHORT)
    counts = api.embedded(BEFORE + AFTER, patience=60)
    assert (counts["failed"], counts["cancelled"], counts["completed"]) == (0, 0, BEFORE + AFTER)
    assert old.leave() == 0


async def test_an_older_version_does_not_take_its_functions_back(place: Place, tmp_path: Path) -> None:
    """Started again after the upgrade, it refuses and names both versions; the functions stay the new ones."""
    older = older_version(tmp_path)
    assert place.run("init").returncode == 0

    refused = [place.run(command, **older) for command in ("init", "status")]

    assert [one.returncode for one in refused] == [1, 1]
    assert all(f"the functions of embedq {embedq.__version__}, this is 0.1.9" in one.stderr for one in refused)
    assert place.run("status").returncode == 0
