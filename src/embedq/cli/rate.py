"""How fast a queue shrinks."""

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import NamedTuple

from rich.text import Text

from embedq.cli.output import span

WINDOW = 10.0  # seconds that are looked back
SHORTEST = 1.0  # seconds before a rate is more than a guess


class _Sample(NamedTuple):
    at: float
    open: int  # pending and processing
    ended: int


@dataclass(slots=True)
class Rate:
    """Jobs a second over the last seconds, from counts that are read now and then."""

    samples: deque[_Sample] = field(default_factory=deque)

    def add(self, *, open_jobs: int, ended: int = 0, at: float | None = None) -> None:
        """Note the jobs that are open, and those that have ended if it is known."""
        now = monotonic() if at is None else at
        self.samples.append(_Sample(now, open_jobs, ended))
        while len(self.samples) > 2 and now - self.samples[1].at >= WINDOW:  # noqa: PLR2004 the first and the last
            self.samples.popleft()

    @property
    def words(self) -> Text:
        """Write the rate and the time left; empty while too little is known or nothing is open."""
        first, last = (self.samples[0], self.samples[-1]) if self.samples else (None, None)
        if first is None or last is None or not last.open or last.at - first.at < SHORTEST:
            return Text()
        seconds, shrunk = last.at - first.at, first.open - last.open
        done = max(shrunk, last.ended - first.ended)  # purged jobs count among those that ended no more
        if done <= 0:
            return Text(f"nothing moved in {seconds:.0f} s", "yellow")
        rate = Text(f"{_rounded(done / seconds)} jobs/s")
        if shrunk <= 0:
            return rate.append(", as many come in")
        return rate.append(", ").append_text(span(timedelta(seconds=last.open * seconds / shrunk))).append(" left")


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"  # noqa: PLR2004 two digits
