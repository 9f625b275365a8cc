"""The provider `fake`, for tests and rehearsals: vectors made from the text's hash, and scripted faults."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embedq.embedders.faults import VARIABLE, Faults, Kind, Mishap, Rehearsal
from embedq.embedders.http_answers import encoded, error_of
from embedq.embedding import EmbedderLimits, Embeddings, Purpose
from embedq.errors import EmbedderError, Permanent, SettingsError, Transient, Unavailable
from embedq.model import EmbedderName, Vector
from embedq.ports import Provider
from embedq.settings import Variable

FAKE_LOG = "EMBEDQ_FAKE_LOG"
DIMENSIONS = 384
LIMITS = EmbedderLimits(inputs=2048)
_MOST_DIMENSIONS = 65_536
_BYTES_PER_TOKEN = 4
_VALUES_PER_WORD = 4  # a 64-bit word gives four values of 16 bits
_STEP, _MIX_ONE, _MIX_TWO = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class FakeEmbedder:
    """Gives equal texts equal unit vectors, at no cost, and fails as scripted."""

    limits = LIMITS

    def __init__(
        self, name: EmbedderName, *, faults: Faults | None = None, log: Path | None = None, remote: bool = False
    ) -> None:
        """Prepare the script; with `log`, one JSON line per call is appended to that file, from any process."""
        self.name = name
        self._size = DIMENSIONS if name.dimensions is None else name.dimensions
        if not 1 <= self._size <= _MOST_DIMENSIONS:
            raise SettingsError(f"{name}: dimensions must be from 1 to {_MOST_DIMENSIONS}.")
        self.dimensions: int | None = self._size
        self.remote = remote
        self.calls = 0
        self.texts_seen = 0
        self._log = log
        self.order(faults or Faults())

    def order(self, faults: Faults) -> None:
        """Play this script from the next call on."""
        self._faults = faults
        self._rehearsal = Rehearsal(faults)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:  # noqa: ARG002 - one vector for both
        """Return the texts' vectors, or raise the fault that the script has for this call."""
        if not texts:
            return Embeddings(vectors=np.empty((0, self._size), np.float32), tokens=0)
        raws = encoded(list(texts))
        hashes = [hashlib.sha256(raw).digest() for raw in raws]
        mishap = self._count(hashes)
        if self._faults.latency:
            await asyncio.sleep(self._faults.latency)
        await self._fail(mishap, texts)
        vectors = _spoilt(vectors_of(hashes, self._size, self.name.model), mishap)
        return Embeddings(vectors=vectors, tokens=sum(map(_tokens, raws)))

    def tokens(self, text: str) -> int:
        """Count four bytes as a token."""
        return _tokens(text.encode(errors="surrogatepass"))

    def truncates(self, text: str) -> bool:  # noqa: ARG002 - the protocol's signature
        """Return False: the hash is of the whole text."""
        return False

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _count(self, hashes: Sequence[bytes]) -> Mishap:
        mishap = self._rehearsal.next()
        self.calls += 1
        self.texts_seen += len(hashes)
        if self._log is not None:
            _append(self._log, hashes, mishap)
        return mishap

    async def _fail(self, mishap: Mishap, texts: Sequence[str]) -> None:
        if mishap.kind is Kind.HANG:
            await asyncio.Event().wait()  # until the caller gives up
        if error := _error(mishap):
            raise error
        if self._faults.bad and any(map(self._faults.refuses, texts)):
            raise Permanent("The fake provider refuses this input (400), as it was told to.", code="400")


def _tokens(raw: bytes) -> int:
    return max(1, -(-len(raw) // _BYTES_PER_TOKEN))


def vectors_of(hashes: Sequence[bytes], dimensions: int = DIMENSIONS, model: str = "") -> Vector:
    """Spread SHA-256 digests into unit vectors; two models give two unrelated vectors for one text."""
    salt = np.frombuffer(hashlib.sha256(model.encode()).digest()[:8], "<u8")
    seeds = np.frombuffer(b"".join(hashes), "<u8").reshape(len(hashes), 4)[:, :1] ^ salt
    words = -(-dimensions // _VALUES_PER_WORD)
    noise = _mixed(seeds + np.arange(1, words + 1, dtype=np.uint64) * _STEP)
    vectors: Vector = noise.astype("<u8", copy=False).view("<i2")[:, :dimensions].astype(np.float32)
    vectors += np.float32(0.5)  # never a vector of zeros
    # In float64 these squares add up exactly in any order, so that a text's bits do not depend on its batch.
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    vectors *= (1.0 / lengths).astype(np.float32)[:, None]
    return vectors


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state ^= state >> np.uint64(30)
    state *= _MIX_ONE
    state ^= state >> np.uint64(27)
    state *= _MIX_TWO
    state ^= state >> np.uint64(31)
    return state


def _error(mishap: Mishap) -> EmbedderError | None:
    said = f"The fake provider failed as it was told to: {mishap}."
    match mishap.kind:
        case Kind.STATUS:
            wait = None if mishap.retry_after is None else timedelta(seconds=mishap.retry_after)
            return error_of(mishap.status, said, retry_after=wait)
        case Kind.REFUSED:
            return Unavailable(said, code="connection_refused")
        case Kind.TIMEOUT:
            return Transient(said, code="timeout")
        case Kind.RESET | Kind.CUT | Kind.DUPLICATE:
            return Transient(said, code=mishap.kind.value)
        case _:  # the others corrupt the answer, or nothing
            return None


def _spoilt(vectors: Vector, mishap: Mishap) -> Vector:
    match mishap.kind:
        case Kind.COUNT:
            return vectors[:-1]
        case Kind.DIMENSIONS:
            return vectors[:, :-1]
        case Kind.NAN:
            vectors[0, 0] = np.nan
    return vectors


def _append(log: Path, hashes: Sequence[bytes], mishap: Mishap) -> None:
    facts = {
        "pid": os.getpid(),
        "at": time.time(),
        "count": len(hashes),
        "fault": None if mishap.kind is Kind.OK else str(mishap),
        "hashes": [digest.hex() for digest in hashes],
    }
    line = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
    # One write in append mode: lines of several processes never mix.
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def _build(name: EmbedderName, environment: Mapping[str, str]) -> FakeEmbedder:
    log = environment.get(FAKE_LOG, "")
    return FakeEmbedder(name, faults=Faults.parse(environment.get(VARIABLE, "")), log=Path(log) if log else None)


PROVIDER = Provider(
    build=_build,
    remote=False,
    limits=LIMITS,
    variables=(
        Variable(name=VARIABLE, description="What goes wrong with calls of the fake embedder, such as `500=2`."),
        Variable(name=FAKE_LOG, description="A file to which the fake embedder appends one JSON line per call."),
    ),
    dimensions=DIMENSIONS,
)
