"""The tests hold wherever they are started: in the foreground, by a script in the background, under nohup."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IGNORING = ["sh", "-c", 'trap "" HUP INT QUIT TERM TTOU; exec "$@"', "sh"]
LIBRARYS_OWN = 1 << 31 | 1 << 32  # signals 32 and 33 are the C library's: no program can set them
PROGRAM = """
import subprocess
from tests.signals import give_children_their_signals

give_children_their_signals()
subprocess.run(["grep", "SigIgn", "/proc/self/status"], check=True)
"""


def test_a_child_ignores_no_signal() -> None:
    """A process that a test starts has every signal's default, also where the tests were told to ignore some."""
    shown = subprocess.run([*IGNORING, sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, check=True)

    assert int(shown.stdout.split()[1], 16) & ~LIBRARYS_OWN == 0


def test_what_was_to_be_ignored_still_is() -> None:
    """Whoever hangs up on a run under nohup does not end it."""
    program = PROGRAM + "import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\nprint('alive')"
    shown = subprocess.run([*IGNORING, sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True)

    assert shown.stdout.endswith(b"alive\n")
