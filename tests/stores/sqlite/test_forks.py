"""A file that is open cannot be taken along into a fork."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FORK = """
import json, os, sys
import embedq

url, close_first = sys.argv[1], sys.argv[2] == "True"
eq = embedq.connect(url, embedder="fake")
eq.put("notes", [{"id": "parent", "text": "A"}])
if close_first:
    eq.close()
reader, writer = os.pipe()
if os.fork() == 0:
    try:
        with embedq.connect(url, embedder="fake") as child:
            child.put("notes", [{"id": "child", "text": "B"}])
        said = "written"
    except embedq.errors.StoreUnusable as refusal:
        said = str(refusal)
    os.write(writer, json.dumps(said).encode())
    os._exit(0)
os.wait()
eq.close()
with embedq.connect(url, embedder="fake") as again:
    print(json.dumps([json.loads(os.read(reader, 65536)), [record.id for record in again.records("notes").items]]))
"""


@pytest.mark.parametrize(
    ("closed", "said", "records"),
    [(False, "was open when this process was forked", ["parent"]), (True, "written", ["child", "parent"])],
)
def test_a_file_that_was_open_at_a_fork_is_refused_in_the_child(
    tmp_path: Path,
    closed: bool,  # noqa: FBT001 a case
    said: str,
    records: list[str],
) -> None:
    """SQLite would take no lock there, and lose what is written; closed before the fork, it is opened as ever."""
    command = [sys.executable, "-c", FORK, f"sqlite:///{tmp_path}/notes.db", str(closed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    answer, found = json.loads(done.stdout)

    assert said in answer
    assert sorted(found) == records
