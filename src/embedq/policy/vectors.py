"""Checks an embedder's answer before it is used."""

import numpy as np

from embedq.errors import Transient, Unavailable
from embedq.model import Vector

_MATRIX = 2  # axes: texts, dimensions


def checked(answer: object, *, texts: int, dimensions: int | None) -> Vector:
    """Return one finite float32 row per text, or raise an error that says what is wrong.

    Args:
        answer: The vectors as an embedder returned them.
        texts: The number of rows expected.
        dimensions: The expected length of each; None: not known yet.
    """
    try:
        vectors = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise Transient("the embedder's answer is no table of numbers", code="bad_answer") from error
    if vectors.ndim != _MATRIX or len(vectors) != texts or not vectors.shape[1]:
        raise Transient(f"asked for {texts} vectors, got an answer of shape {vectors.shape}", code="wrong_count")
    check_dimensions(vectors, dimensions)
    if not np.isfinite(vectors).all():
        raise Transient("the embedder's answer holds NaN or infinity", code="not_finite")
    return vectors


def check_dimensions(vectors: Vector, dimensions: int | None) -> None:
    """Refuse vectors of other dimensions than those they would be compared with."""
    if dimensions is not None and vectors.shape[1] != dimensions:
        raise Unavailable(
            f"the embedder answered with {vectors.shape[1]} dimensions where {dimensions} are expected: use the model "
            "that made the others, or name the dimensions with the embedder (MODEL@DIMENSIONS)",
            code="wrong_dimensions",
        )
