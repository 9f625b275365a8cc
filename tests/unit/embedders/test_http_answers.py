"""What any provider's answer over HTTP says beside its body."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from embedq.embedders.http_answers import told_limits
from embedq.embedding import Allowance, ToldLimits

SPANS = {
    "6m0s": 360.0,
    "1s": 1.0,
    "20ms": 0.02,
    "1h2m3.5s": 3723.5,
    "1m": 60.0,
    "59.8s": 59.8,
    "12": 12.0,
    "9999h": 86_400.0,
    "soon": None,
    "": None,
    "s": None,
}


@pytest.mark.parametrize(("written", "seconds"), SPANS.items())
def test_a_reset_is_read_as_providers_write_it(written: str, seconds: float | None) -> None:
    """Hours, minutes, seconds and milliseconds, or a bare number; a day at most, and nothing for what is no span."""
    told = told_limits({"x-ratelimit-limit-requests": "60", "x-ratelimit-reset-requests": written})

    expected = None if seconds is None else timedelta(seconds=seconds)
    assert told == ToldLimits(requests=Allowance(limit=60, reset_after=expected))


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, None),
        ({"x-ratelimit-limit-requests": "many"}, None),
        ({"x-ratelimit-limit-requests": "-1"}, None),
        ({"x-ratelimit-limit-requests": "nan"}, None),
        ({"x-ratelimit-limit-requests": "inf"}, None),
        ({"x-ratelimit-remaining-requests": "0"}, ToldLimits(requests=Allowance(remaining=0))),
        (
            {"x-ratelimit-limit-tokens": "150000", "x-ratelimit-remaining-tokens": "149984"},
            ToldLimits(tokens=Allowance(limit=150_000, remaining=149_984)),
        ),
    ],
)
def test_limits_are_told_or_not(headers: Mapping[str, str], told: ToldLimits | None) -> None:
    """Requests and tokens apart; what was not said, or is no count, is None."""
    assert told_limits(headers) == told
