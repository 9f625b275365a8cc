"""What a provider's answer means: statuses become our kinds of error, vectors are checked before they are stored."""

from datetime import timedelta
from http import HTTPStatus

import numpy as np

from embedq.errors import Critical, EmbedderError, NotNow, Permanent, Transient, Unavailable
from embedq.model import Vector

_REFUSED_INPUT = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
_REFUSED_CALLER = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def error_of(status: int, message: str, *, retry_after: timedelta | None = None) -> EmbedderError:
    """Say what an HTTP status means for the caller. A status nobody foresaw counts as transient."""
    code = str(status)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return NotNow(message, retry_after=retry_after, code=code)
    if status in _REFUSED_INPUT:
        return Permanent(message, code=code)
    if status in _REFUSED_CALLER:
        return Critical(message, code=code)
    if status == HTTPStatus.NOT_FOUND or status < HTTPStatus.BAD_REQUEST:  # no such model, or a redirect
        return Unavailable(message, code=code)
    return Transient(message, code=code)


def checked(vectors: Vector, *, count: int, dimensions: int | None) -> Vector:
    """Hand the vectors on if there is one finite row per text, as long as it should be."""
    if vectors.shape[0] != count:
        raise Transient(f"The provider answered {vectors.shape[0]} vectors for {count} texts.", code="wrong_count")
    if dimensions is not None and vectors.shape[1] != dimensions:
        raise Unavailable(
            f"The provider answered vectors of {vectors.shape[1]} dimensions where {dimensions} are expected. "
            "Name the dimensions with the embedder (MODEL@DIMENSIONS), or serve the model that made the others.",
            code="wrong_dimensions",
        )
    if not np.isfinite(vectors).all():
        raise Transient("The provider answered a vector that is not finite (NaN or infinity).", code="not_finite")
    return vectors


def encoded(texts: list[str]) -> list[bytes]:
    """Write the texts in UTF-8, as every provider reads them. A lone surrogate has no such form: permanent."""
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise Permanent("A text holds a lone surrogate, which is not Unicode text.", code="invalid_text") from error
