"""What the figures were measured on, and whether it had other things to do."""

import os
import platform
import sqlite3
import time
from pathlib import Path

CALM_SHARE = 0.15
SAMPLE = 0.5  # seconds


def described() -> str:
    """Say what machine this is."""
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, {python}"


def busy_share() -> float:
    """Say how much of the machine's processors others use while we do nothing."""
    before = _ticks()
    time.sleep(SAMPLE)
    after = _ticks()
    total = sum(after) - sum(before)
    return 1 - (_idle(after) - _idle(before)) / total if total else 0.0


def _ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def _idle(ticks: list[int]) -> int:
    return ticks[3] + ticks[4]  # idle, and waiting for the disk
