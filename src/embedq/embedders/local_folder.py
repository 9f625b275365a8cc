"""The user's cache folder: what it holds is this user's alone."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return this user's cache folder."""
    named = environment.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    root = Path(named) if Path(named).is_absolute() else Path(environment.get("HOME") or Path.home()) / ".cache"
    return root / "embedq"


def is_ours_alone(folder: Path) -> bool:
    """Make the folder if necessary; say whether no other user can change a file between check and load."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid == os.geteuid() and found.st_mode & OTHERS_WRITE:
            folder.chmod(0o700)
            found = folder.stat()
    except OSError:  # no home, or no right to it
        return False
    return found.st_uid in {os.geteuid(), 0} and not found.st_mode & OTHERS_WRITE
