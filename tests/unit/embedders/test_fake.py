import asyncio
import json
import time
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from tests.unit.embedders.asking import asked

from embedq.embedders import build
from embedq.errors import Critical, EmbedderError, NotNow, Permanent, SettingsError, Transient, Unavailable
from embedq.model import EmbedderName
from embedq.testing.faults import FakeEmbedder, Faults, Kind, Mishap, Rehearsal

FAKE = EmbedderName(provider="fake", model="")


def fake(order: str = "") -> FakeEmbedder:
    return FakeEmbedder(FAKE, faults=Faults.parse(order))


async def test_vectors_are_unit_length_and_bit_equal_in_any_batch() -> None:
    """Every row has length one, and its bits do not depend on its batch."""
    texts = [f"text {number}" for number in range(100)]

    together = await asked(fake(), texts)

    assert np.abs(np.linalg.norm(together, axis=1) - 1).max() < 1e-6
    assert np.array_equal(together, np.vstack([await asked(fake(), [text]) for text in texts]))


async def test_vectors_of_different_texts_are_far_apart() -> None:
    """No two of a thousand texts come near each other."""
    vectors = await asked(fake(), [f"text {number}" for number in range(1000)])

    cosines = vectors @ vectors.T - np.eye(1000)
    assert np.abs(cosines).max() < 0.4


async def test_two_models_give_unrelated_vectors() -> None:
    """A space of another fake model is another space."""
    other = FakeEmbedder(EmbedderName(provider="fake", model="other"))

    assert abs(float((await asked(fake(), ["a text"]) @ (await asked(other, ["a text"])).T)[0, 0])) < 0.4


async def test_a_batch_costs_well_under_a_millisecond() -> None:
    """The fake embedder is no brake: the best of many batches of a hundred is under half a millisecond."""
    embedder, texts = fake(), [f"a text of some words, number {number}" for number in range(100)]
    spans = []
    for _ in range(100):
        began = time.perf_counter()
        await asked(embedder, texts)
        spans.append(time.perf_counter() - began)

    assert min(spans) < 0.0005


@pytest.mark.parametrize(
    ("order", "kind", "code"),
    [
        ("400=1", Permanent, "400"),
        ("401=1", Critical, "401"),
        ("404=1", Unavailable, "404"),
        ("429=1:2.5", NotNow, "429"),
        ("500=1", Transient, "500"),
        ("timeout=1", Transient, "timeout"),
        ("refused=1", Unavailable, "connection_refused"),
        ("reset=1", Transient, "reset"),
        ("cut=1", Transient, "cut"),
        ("duplicate=1", Transient, "duplicate"),
        ("count=1", Transient, "wrong_count"),
        ("dimensions=1", Unavailable, "wrong_dimensions"),
        ("nan=1", Transient, "not_finite"),
        ("bad=POISON", Permanent, "400"),
    ],
)
async def test_a_fault_is_raised_as_its_kind(order: str, kind: type[EmbedderError], code: str) -> None:
    """Every fault that can be ordered arrives as the kind a real provider's would."""
    embedder = fake(order)

    with pytest.raises(EmbedderError) as caught:
        await asked(embedder, ["one text", "a POISON text"])

    assert type(caught.value) is kind
    assert caught.value.provider_code == code
    assert (await asked(embedder, ["one text"])).shape == (1, 384)
    assert (embedder.calls, embedder.texts_seen) == (2, 3)


async def test_429_carries_its_wait() -> None:
    """Retry-After comes along as a span, and is absent where it was not ordered."""
    embedder = fake("429=1:2.5,429=1")

    with pytest.raises(NotNow) as first:
        await asked(embedder, ["a text"])
    with pytest.raises(NotNow) as second:
        await asked(embedder, ["a text"])

    assert (first.value.retry_after, second.value.retry_after) == (timedelta(seconds=2.5), None)


async def test_a_hanging_call_waits_until_it_is_given_up() -> None:
    """Only its caller ends a hang; the next call goes well."""
    embedder = fake("hang=1")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked(embedder, ["a text"]), 0.01)

    assert (await asked(embedder, ["a text"])).shape == (1, 384)


async def test_every_call_takes_the_ordered_latency() -> None:
    """A standing latency holds for each call."""
    embedder, began = fake("latency=0.02"), time.perf_counter()

    await asked(embedder, ["a text"])
    await asked(embedder, ["a text"])

    assert time.perf_counter() - began >= 0.04


async def test_the_log_names_each_call_and_its_texts(tmp_path: Path) -> None:
    """With `EMBEDQ_FAKE_LOG` one line per call is appended, with the texts' content hashes."""
    log = tmp_path / "calls.jsonl"
    environment = {"EMBEDQ_FAKE_LOG": str(log), "EMBEDQ_FAKE_FAULTS": "500=1"}
    embedder = build(FAKE, environment=environment)

    with pytest.raises(Transient):
        await asked(embedder, ["one", "two"])
    await asked(embedder, ["one"])

    first, second = (json.loads(line) for line in log.read_text().splitlines())
    assert (first["count"], first["fault"], second["count"], second["fault"]) == (2, "500", 1, None)
    assert first["hashes"] == [sha256(text.encode()).hexdigest() for text in ("one", "two")]


async def test_a_lone_surrogate_is_permanent() -> None:
    """Text that is not Unicode is refused, as a provider would."""
    with pytest.raises(Permanent):
        await asked(fake(), ["\ud83d"])


def test_the_text_form_is_read_whole() -> None:
    """All that the mini-language can say arrives in the script."""
    faults = Faults.parse(" latency=0.05, 429=3:2.5,ok=2 ,503=1,hang=1,bad=ONE,bad=TWO,")

    assert faults == Faults(
        latency=0.05,
        bad=("ONE", "TWO"),
        script=(
            Mishap(kind=Kind.STATUS, times=3, status=429, retry_after=2.5),
            Mishap(kind=Kind.OK, times=2),
            Mishap(kind=Kind.STATUS, status=503),
            Mishap(kind=Kind.HANG),
        ),
    )


def test_a_script_is_played_in_order_and_ends() -> None:
    """Each entry lasts for its number of calls; then all is well."""
    rehearsal = Rehearsal(Faults.parse("429=2,ok=1,500=1"))

    assert [str(rehearsal.next()) for _ in range(6)] == ["429", "429", "ok", "500", "ok", "ok"]


@pytest.mark.parametrize(
    "wrong",
    ["399=1", "600=1", "boom=1", "status=1", "500", "500=0", "500=x", "hang=1:2", "latency=fast", "latency=-1", "bad="],
)
def test_a_wrong_order_is_refused(wrong: str) -> None:
    """What is not understood stops the start and names the variable and the entry."""
    with pytest.raises(SettingsError, match="EMBEDQ_FAKE_FAULTS"):
        Faults.parse(wrong)
