"""The model itself: a tokenizer and an onnxruntime session. All of it blocks; the model's threads call it."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedq.embedders.local_cache import graph
from embedq.embedders.local_folder import cache_folder
from embedq.embedders.local_tokens import TextTokenizer, Tokens
from embedq.embedders.local_weights import TOKENIZER, Source
from embedq.model import Vector

if TYPE_CHECKING:
    import onnxruntime

_RUN_TOKENS = 256  # measured best for one thread: a run's data stays in its core's cache
_LEAST_RUN_TOKENS = 64  # below it, a run's fixed cost outweighs the gain of another core
_ERRORS_ONLY = 3


class _Parts(NamedTuple):
    tokenizer: TextTokenizer
    session: "onnxruntime.InferenceSession"


class LocalModel:
    """Loads itself at the first use. Several threads may call it at once."""

    def __init__(self, source: Source, environment: Mapping[str, str]) -> None:
        """Remember where the files are."""
        self._source = source
        self._cache = cache_folder(environment)
        self._lock = threading.Lock()
        self._parts: _Parts | None = None

    def load(self) -> _Parts:
        """Load tokenizer and session, unless they are loaded."""
        with self._lock:
            if self._parts is None:
                self._parts = _load(self._source, self._cache)
            return self._parts

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return each text's tokens, and whether it was cut."""
        return self.load().tokenizer.tokens(texts)

    def vectors(self, rows: Sequence[Sequence[int]]) -> Vector:
        """Run the model once over these rows of tokens, the longest first."""
        ids = np.zeros((len(rows), len(rows[0])), np.int64)
        mask = np.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        [vectors] = self.load().session.run(None, {"ids": ids, "mask": mask})
        answer: Vector = vectors
        return answer


def packed(lengths: Sequence[int], threads: int) -> list[list[int]]:
    """Group texts of similar length into runs, the longest first, to compute little padding.

    Each core takes its own runs: measured 10 % faster than runs that all cores share, which synchronise at every
    operation. Longest first lets the cores finish at about the same time.
    """
    budget = min(_RUN_TOKENS, max(_LEAST_RUN_TOKENS, sum(lengths) // threads))
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    runs: list[list[int]] = []
    while order:
        size = max(1, budget // lengths[order[0]])
        runs.append(order[:size])
        order = order[size:]
    return runs


def _load(source: Source, cache: Path) -> _Parts:
    return _Parts(TextTokenizer(source.verified(TOKENIZER)), _session(graph(source, cache)))


def _session(model: Path | bytes) -> "onnxruntime.InferenceSession":
    import onnxruntime  # noqa: PLC0415 - loaded with the model, not before

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # our threads already use every core
    options.log_severity_level = _ERRORS_ONLY
    place = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(place, options, providers=["CPUExecutionProvider"])
