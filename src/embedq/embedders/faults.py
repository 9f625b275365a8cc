"""Scripted faults, the same for the fake embedder and for the loopback provider.

As text (the variable `EMBEDQ_FAKE_FAULTS`), it is a comma-separated list. These apply to every call:

    latency=0.05        each call takes 50 ms
    bad=POISON          a call with a text that contains POISON is refused with 400; may be given more than once

All others are a script, played in order; `KIND=N` means the next N calls, and after the script calls succeed:

    429=3:2.5           three calls are answered 429 with Retry-After 2.5 s (`429=3` without the header)
    500=2               two calls are answered 500; so with every other status from 400 to 599
    timeout=1           one call times out; `hang=1`: one call is never answered
    refused=1           one connection is refused; `reset=1`: lost midway; `cut=1`: the body ends too soon
    count=1             one vector too few; `dimensions=1`: one dimension too few; `nan=1`: a value is NaN
    shuffled=1          the vectors come in another order; `duplicate=1`: an index comes twice
    ok=5                five calls succeed before the script goes on
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from embedq.errors import SettingsError

VARIABLE = "EMBEDQ_FAKE_FAULTS"
_LOWEST_STATUS, _HIGHEST_STATUS = 400, 599
_MOST_REPEATS = 1_000_000


class Kind(StrEnum):
    """What can go wrong with one call."""

    OK = "ok"
    STATUS = "status"
    TIMEOUT = "timeout"
    HANG = "hang"
    REFUSED = "refused"
    RESET = "reset"
    CUT = "cut"
    COUNT = "count"
    DIMENSIONS = "dimensions"
    NAN = "nan"
    SHUFFLED = "shuffled"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mishap:
    """What goes wrong with the next `times` calls."""

    kind: Kind
    times: int = 1
    status: int = 0  # for STATUS only
    retry_after: float | None = None  # seconds, with a status
    headers: tuple[tuple[str, str], ...] = ()  # with a status, and only on the wire
    message: str = ""  # with a status, and only on the wire

    def __str__(self) -> str:
        """Name it as the script does."""
        return str(self.status) if self.kind is Kind.STATUS else self.kind.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """A script of mishaps, played once, and what applies to every call."""

    script: Sequence[Mishap] = ()
    latency: float = 0.0  # seconds
    bad: Sequence[str] = ()  # markers of texts that are refused

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """Parse the text form, which the module's docstring describes."""
        script, latency, bad = [], 0.0, []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = entry.partition("=")
            match name:
                case "latency":
                    latency = _seconds(value, entry)
                case "bad":
                    bad.append(_marker(value, entry))
                case _:
                    script.append(_mishap(name, value, entry))
        return cls(script=tuple(script), latency=latency, bad=tuple(bad))

    def refuses(self, text: str) -> bool:
        """Say whether this text contains a marker."""
        return any(marker in text for marker in self.bad)


class Rehearsal:
    """Plays a script of faults, one call at a time."""

    def __init__(self, faults: Faults) -> None:
        """Start at the beginning of the script."""
        self.faults = faults
        self._script = iter([mishap for mishap in faults.script if mishap.times > 0])
        self._left = 0
        self._current = Mishap(kind=Kind.OK)

    def next(self) -> Mishap:
        """Return the fault of this call; OK after the end of the script."""
        if self._left == 0:
            self._current = next(self._script, Mishap(kind=Kind.OK))
            self._left = self._current.times
        self._left -= 1
        return self._current


def _mishap(name: str, value: str, entry: str) -> Mishap:
    times, _, wait = value.partition(":")
    if not times.isdecimal() or not 1 <= int(times) <= _MOST_REPEATS:
        raise _wrong(entry, f"the number of calls must be from 1 to {_MOST_REPEATS}")
    if name.isdecimal() and _LOWEST_STATUS <= int(name) <= _HIGHEST_STATUS:
        retry_after = _seconds(wait, entry) if wait else None
        return Mishap(kind=Kind.STATUS, times=int(times), status=int(name), retry_after=retry_after)
    if name == Kind.STATUS or name not in set(Kind) or wait:
        known = ", ".join(kind for kind in Kind if kind is not Kind.STATUS)
        raise _wrong(entry, f"known are latency, bad, a status from 400 to 599, {known}")
    return Mishap(kind=Kind(name), times=int(times))


def _seconds(value: str, entry: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        raise _wrong(entry, "a number of seconds is expected") from None
    if not 0 <= seconds <= 86_400:  # noqa: PLR2004 - a day, said in the message
        raise _wrong(entry, "seconds must be from 0 to 86400")
    return seconds


def _marker(value: str, entry: str) -> str:
    if not value:
        raise _wrong(entry, "a marker is expected")
    return value


def _wrong(entry: str, why: str) -> SettingsError:
    return SettingsError(f"{VARIABLE}: {entry!r} is not understood: {why}. Example: latency=0.05,429=3:2.5,bad=POISON")
