"""The API beside its own description: requests made from the OpenAPI page, whole and broken, on both databases."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doors.conftest import Shell

KEY = "the-full-key-of-this-test"
# The short form of `make test`; `make fuzz` sends more, and another seed sends others.
EXAMPLES = os.environ.get("FUZZ_EXAMPLES", "2")
SEED = os.environ.get("FUZZ_SEED", "1")
CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return "sqlite:///fuzz.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def api(shell: Shell, url: str) -> Iterator[str]:
    """Run everything in one process: the routes meet workers that really embed."""
    variables = {"EMBEDQ_URL": url, "EMBEDQ_API_KEY": KEY, "EMBEDQ_PORT": "0", "PYTHONUNBUFFERED": "1"}
    with (shell.folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*shell.command, "up", "--workers", "1"],
            cwd=shell.folder,
            env=shell.environment | {"EMBEDQ_EMBEDDER": "fake@16"} | variables,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            yield next(line for line in process.stdout if "http://" in line).split()[-1]
        finally:
            process.kill()
            process.communicate()


@pytest.mark.timeout(60 * max(10, int(EXAMPLES)))
def test_the_api_does_what_its_description_says(shell: Shell, api: str) -> None:
    """No request meets a 5xx, and no answer differs from the page: every check, on every route, in every phase."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run", f"{api}/openapi.json",
        "--checks", "all", "--max-examples", EXAMPLES, "--seed", SEED, "--no-color", "--request-timeout", "30",
        "--header", f"Authorization: Bearer {KEY}", "--output-sanitize", "false",
    ]  # fmt: skip
    found = subprocess.run(command, cwd=shell.folder, capture_output=True, text=True, check=False)

    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2000:]
    log = (shell.folder / "log").read_text()
    assert '"request_failed"' not in log
    assert '"store_trouble"' not in log  # a client's mistake is no trouble of the database
