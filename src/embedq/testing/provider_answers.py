"""The bodies that the loopback provider answers with, valid or damaged."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedq.embedders.fake import vectors_of
from embedq.embedders.faults import Kind
from embedq.model import Vector


def completed(asked: Mapping[str, Any], texts: Sequence[str], dimensions: int, mishap: Kind) -> bytes:
    """Answer a request with one vector per text, in the requested encoding, damaged as the script says."""
    size = int(asked.get("dimensions") or dimensions)
    rows = _rows(texts, size)
    if mishap is Kind.DIMENSIONS:
        rows = rows[:, :-1]
    if mishap is Kind.NAN and len(rows):
        rows[0, 0] = np.nan
    write = _base64 if asked.get("encoding_format") == "base64" else _numbers
    data = [{"object": "embedding", "index": index, "embedding": write(row)} for index, row in enumerate(rows)]
    tokens = sum(len(text.split()) for text in texts)
    answer = {
        "object": "list",
        "data": _disordered(data, mishap),
        "model": asked.get("model", ""),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return json.dumps(answer).encode()


def refused(message: str, *, code: str | None = None) -> bytes:
    """Answer with an error in OpenAI's format."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def _rows(texts: Sequence[str], size: int) -> Vector:
    if not texts:
        return np.empty((0, size), np.float32)
    return vectors_of([hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts], size)


def _disordered(data: list[dict[str, Any]], mishap: Kind) -> list[dict[str, Any]]:
    match mishap:
        case Kind.COUNT:
            return data[:-1]
        case Kind.SHUFFLED:
            return data[::-1]
        case Kind.DUPLICATE:
            return [*data[:-1], {**data[-1], "index": 0 if len(data) > 1 else 1}]
    return data


def _base64(row: Vector) -> str:
    return b64encode(row.astype("<f4").tobytes()).decode("ascii")


def _numbers(row: Vector) -> list[float]:
    return [float(value) for value in row]
