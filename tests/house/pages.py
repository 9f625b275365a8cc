"""The pages of the docs, and how what they show is typed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN_ADDRESS = "http://127.0.0.1:8400"
SHOWN_COMMAND, SHOWN_PYTHON = ".venv/bin/embedq", ".venv/bin/python"
SECONDS = 60


class Programs(NamedTuple):
    """What a reader has instead of the programs that a page names."""

    python: str
    embedq: str


HERE = Programs(sys.executable, f"{sys.executable} -m embedq")


def blocks(path: Path) -> list[tuple[str, str]]:
    """List the kinds and texts of a page's blocks."""
    return BLOCK.findall(path.read_text())


def typed(
    kind: str, code: str, *, programs: Programs, address: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a block as a reader would, with these programs and this server where the page has the usual ones."""
    here = code.replace(SHOWN_ADDRESS, address).replace(SHOWN_PYTHON, programs.python)
    here = here.replace(SHOWN_COMMAND, programs.embedq)  # last: it may hold the name of a Python that is shown
    command = [programs.python, "-c", code] if kind == "python" else ["bash", "-euo", "pipefail", "-c", here]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    assert '"urn:embedq:problem:' not in done.stdout, f"{code}\n{done.stdout}"
    return done


def curl_knows_json() -> bool:
    """Say whether this curl has the option that the pages use."""
    curl = shutil.which("curl", path=os.environ.get("PATH"))
    if curl is None:
        return False
    helped = subprocess.run([curl, "--help", "all"], capture_output=True, text=True, timeout=SECONDS, check=False)
    return "--json" in helped.stdout
