import asyncio
import os
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest
from tests.unit.embedders.asking import asked

from embedq.embedders.local_embedder import LocalEmbedder
from embedq.embedders.local_model import packed
from embedq.embedders.local_threads import ModelThreads
from embedq.errors import Permanent
from embedq.model import EmbedderName

LOCAL = EmbedderName(provider="local", model="")
PAIRS = (
    ("How do I get my money back?", "What is the way to obtain a refund?"),
    ("The cat sleeps on the sofa.", "A kitten is napping on the couch."),
    ("It rained heavily all night.", "There was a downpour until morning."),
    ("The engine of the car broke down.", "My vehicle's motor has failed."),
    ("She plays the violin in an orchestra.", "She is a string musician in a symphonic ensemble."),
    ("Prices of groceries went up again.", "Food has become more expensive once more."),
    ("The doctor prescribed a painkiller.", "A physician gave me medicine against the ache."),
    ("The match ended in a draw.", "Neither team won the game."),
    ("The server does not respond to requests.", "Nobody gets an answer from the web service."),
    ("He forgot the password of his account.", "He no longer remembers his login secret."),
)


@pytest.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    made = LocalEmbedder(LOCAL, environment=os.environ)
    yield made
    await made.close()


async def test_a_paraphrase_is_nearer_than_any_distractor(embedder: LocalEmbedder) -> None:
    """Each sentence's paraphrase ranks first among all, both ways: the graph is the model."""
    questions = await asked(embedder, [first for first, _ in PAIRS])
    answers = await asked(embedder, [second for _, second in PAIRS])

    cosines = questions @ answers.T

    assert cosines.argmax(axis=1).tolist() == list(range(len(PAIRS)))
    assert cosines.argmax(axis=0).tolist() == list(range(len(PAIRS)))


async def test_a_known_similarity_is_met(embedder: LocalEmbedder) -> None:
    """Vectors are of length one, and two sentences have the cosine that the model's authors' library gives."""
    vectors = await asked(embedder, ["That is a happy person", "That is a very happy person", "Today is a sunny day"])

    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-6
    assert float(vectors[0] @ vectors[1]) == pytest.approx(0.943, abs=0.002)
    assert float(vectors[0] @ vectors[2]) == pytest.approx(0.257, abs=0.002)


async def test_lengths_mixed_in_one_batch_do_not_move_a_vector(embedder: LocalEmbedder) -> None:
    """A text's vector is the same within 1e-6 whatever lengths it is packed with."""
    texts = ["word " * length + str(length) for length in (1, 3, 9, 27, 81, 200, 255, 300)]

    together = await asked(embedder, texts * 3)
    alone = np.vstack([await asked(embedder, [text]) for text in texts])

    assert np.abs(together - np.vstack([alone] * 3)).max() < 1e-6


async def test_two_embedders_share_one_model_and_its_threads(embedder: LocalEmbedder) -> None:
    """However many embedders a process has, as many model threads run as it has cores; the last close ends them."""
    other = LocalEmbedder(LOCAL, environment=os.environ)

    one, two = await asyncio.gather(asked(embedder, ["a text"]), asked(other, ["a text"]))
    running = [thread for thread in threading.enumerate() if thread.name.startswith("embedq-model")]

    assert np.array_equal(one, two)
    assert len(running) == len(os.sched_getaffinity(0))
    await other.close()
    assert (await asked(embedder, ["a text"])).shape == (1, 384)
    await embedder.close()
    assert not any(thread.is_alive() for thread in running)


async def test_warm_loads_before_the_first_text(embedder: LocalEmbedder) -> None:
    """After `warm` the model is loaded, and before it was not."""
    model = embedder._running().model
    before = model._parts

    await embedder.warm()

    assert before is None
    assert model._parts is not None


async def test_a_cancelled_call_leaves_no_work_behind(embedder: LocalEmbedder) -> None:
    """Who stops waiting takes the runs that have not started out of the queue."""
    threads = embedder._running().threads
    call = asyncio.create_task(asked(embedder, ["word " * 300 + str(number) for number in range(500)]))
    await asked(embedder, ["another text"])

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    done = threads.submit(lambda: "after all that was queued")
    assert await asyncio.wait_for(asyncio.wrap_future(done), 5) == "after all that was queued"


async def test_a_lone_surrogate_is_permanent(embedder: LocalEmbedder) -> None:
    """Text that is not Unicode is refused."""
    with pytest.raises(Permanent):
        await asked(embedder, ["fine", "\ud83d"])


async def test_truncation_is_known_before_and_after_embedding(embedder: LocalEmbedder) -> None:
    """254 words fit between the two marks, 255 do not, and embedding does not change the answer."""
    texts = ["word " * 254, "word " * 255]

    before = [embedder.truncates(text) for text in texts]
    await asked(embedder, texts)

    assert before == [embedder.truncates(text) for text in texts] == [False, True]


def test_runs_hold_every_text_once_and_little_padding() -> None:
    """Texts of like length share a run of at most 256 tokens with padding; the longest come first."""
    lengths = [(number * 37) % 250 + 3 for number in range(200)]

    runs = packed(lengths, threads=2)

    assert sorted(number for run in runs for number in run) == list(range(200))
    assert all(len(run) == 1 or max(lengths[number] for number in run) * len(run) <= 256 for run in runs)
    computed = sum(max(lengths[number] for number in run) * len(run) for run in runs)
    assert computed <= 1.05 * sum(lengths)
    assert max(lengths) == lengths[runs[0][0]]


def test_a_few_short_texts_are_spread_over_the_cores() -> None:
    """A small batch does not sit on one core while others idle."""
    assert len(packed([22] * 10, threads=2)) == 2
    assert len(packed([22] * 10, threads=8)) == 5


async def test_urgent_work_goes_first() -> None:
    """A lone text's work is done before what was queued earlier."""
    threads, gate, order = ModelThreads(threads=1), threading.Event(), list[str]()
    threads.submit(gate.wait)
    waiting = [threads.submit(order.append, "batch"), threads.submit(order.append, "batch")]
    waiting.append(threads.submit(order.append, "query", urgent=True))

    gate.set()
    await asyncio.gather(*map(asyncio.wrap_future, waiting))
    threads.stop()

    assert order == ["query", "batch", "batch"]


async def test_an_error_reaches_who_waits_and_the_thread_goes_on() -> None:
    """A failing piece of work fails its caller only."""
    threads = ModelThreads(threads=1)
    failing, next_one = threads.submit(int, "no number"), threads.submit(int, "7")

    with pytest.raises(ValueError, match="no number"):
        await asyncio.wrap_future(failing)

    assert await asyncio.wrap_future(next_one) == 7
    threads.stop()
