"""Vectors on the wire: pgvector's binary format, to and from numpy."""

import struct
from collections.abc import Sequence

import numpy as np

from embedq.model import Vector

HEADER = struct.Struct(">HH")  # dimensions, and an unused field


def encode(vector: Vector) -> bytes:
    """Encode one vector."""
    return HEADER.pack(len(vector), 0) + np.asarray(vector, dtype=">f4").tobytes()


def encode_all(vectors: Sequence[Vector | None]) -> list[bytes | None]:
    """Encode many vectors; those of equal length share one buffer."""
    given = [vector for vector in vectors if vector is not None]
    if len(given) < len(vectors) or len({len(vector) for vector in given}) > 1:
        return [None if vector is None else encode(vector) for vector in vectors]
    rows = np.asarray(given, dtype=">f4")
    header, buffer, width = HEADER.pack(rows.shape[1], 0), rows.tobytes(), rows.shape[1] * rows.itemsize
    return [header + buffer[start : start + width] for start in range(0, len(buffer), width)]


def decode(data: bytes) -> Vector:
    """Decode one vector."""
    return np.frombuffer(data, dtype=">f4", offset=HEADER.size).astype(np.float32)


def as_sent(data: bytes) -> bytes:
    """Pass an encoded vector through: the driver calls this for each one."""
    return data
