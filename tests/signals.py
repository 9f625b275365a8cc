"""The signals that children are tested with, however the tests were started."""

import signal


def give_children_their_signals() -> None:
    """Ignore by a function of our own what we were told to ignore: a function is not inherited by another program.

    What a script runs in the background ignores SIGINT, and what nohup runs SIGHUP: a test's own processes would, too.
    """
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(*_: object) -> None:
    """Do nothing."""
