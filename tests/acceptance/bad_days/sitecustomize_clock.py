"""Read by a test's processes at their start: the clock that they see is the machine's, moved by a file's seconds."""

import os
import time
from pathlib import Path

_FILE = Path(os.environ["TEST_CLOCK_FILE"])
_true = time.time_ns


def _moved() -> int:
    return _true() + int(float(_FILE.read_text()) * 1_000_000_000)


time.time_ns = _moved
time.time = lambda: _moved() / 1_000_000_000
