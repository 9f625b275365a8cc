"""A figure: what was measured, what it was measured beside, and the bound it has to keep."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

Act = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of `results.json`. `ratio` is value / reference; `beside` says what the reference is."""

    name: str
    value: float
    unit: str
    reference: float | None = None
    ratio: float | None = None
    beside: str | None = None
    bound: str | None = None  # None: for information
    ok: bool | None = None

    def facts(self) -> dict[str, Any]:
        """Write it as plain facts, with figures as long as they are worth."""
        return {key: float(f"{fact:.5g}") if isinstance(fact, float) else fact for key, fact in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: everything, or enough to see every line."""

    quick: bool

    def pick(self, full: int, quick: int) -> int:
        """Choose a size."""
        return quick if self.quick else full


def beside(
    name: str,
    values: Sequence[float],
    references: Sequence[float],
    unit: str,
    *,
    what: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """Compare the medians of rounds that took turns; the bound is on their ratio."""
    value, reference = median(values), median(references)
    ratio = value / reference
    bound, ok = _bound(ratio, at_least, at_most)
    said = None if bound is None else f"ratio {bound}"
    return Figure(name=name, value=value, unit=unit, reference=reference, ratio=ratio, beside=what, bound=said, ok=ok)


def plain(
    name: str, value: float, unit: str, *, at_most: float | None = None, reference: float | None = None, what: str = ""
) -> Figure:
    """State a figure whose bound, if any, is on the value itself."""
    bound, ok = _bound(value, None, at_most)
    ratio = value / reference if reference else None
    said = None if bound is None else f"{bound} {unit}"
    return Figure(
        name=name, value=value, unit=unit, reference=reference, ratio=ratio, beside=what or None, bound=said, ok=ok
    )


async def taking_turns(rounds: int, *acts: Act) -> list[list[float]]:
    """Run the acts in turns (A B A B …), so that the machine's moods meet them all alike."""
    measured: list[list[float]] = [[] for _ in acts]
    for _ in range(rounds):
        for results, act in zip(measured, acts, strict=True):
            results.append(await act())
    return measured


def p95(values: Sequence[float]) -> float:
    """The value that nineteen of twenty stay under."""
    return quantiles(values, n=20, method="inclusive")[-1]


def _bound(figure: float, at_least: float | None, at_most: float | None) -> tuple[str | None, bool | None]:
    if at_least is not None:
        return f"≥ {at_least:g}", figure >= at_least
    if at_most is not None:
        return f"≤ {at_most:g}", figure <= at_most
    return None, None
