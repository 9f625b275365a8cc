"""Every error is sent as an RFC 9457 problem document with a stable `type`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from embedq.errors import (
    Conflict,
    EmbedderError,
    EmbedqError,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    SearchUnavailable,
    SettingsError,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
    TooLarge,
)

PREFIX = "urn:embedq:problem:"
MEDIA_TYPE = "application/problem+json"
SHOWN_NAME = 64  # characters of a field that there is not
RETRY_SECONDS = "2"  # for Retry-After, when the fault is ours and may pass


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Stable: programs may compare it.", examples=[f"{PREFIX}invalid"])
    title: str = Field(description="The kind of problem in a few words.", examples=["The request breaks a rule"])
    status: int = Field(description="The HTTP status.", examples=[422])
    detail: str = Field(description="What happened, and what to do.", examples=["`k` must be at least 1"])
    problems: dict[str, str] | None = Field(
        default=None,
        description="Everything that is wrong, by the position of the record or the name of the field.",
        examples=[{"3": "the id must be a string, not int"}],
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: its status, the end of its type, its title."""

    status: int
    slug: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)


LATER = {"Retry-After": RETRY_SECONDS}
MALFORMED = Kind(400, "malformed", "The request cannot be read")
UNAUTHORIZED = Kind(401, "unauthorized", "A key is needed", {"WWW-Authenticate": 'Bearer realm="embedq"'})
FORBIDDEN = Kind(403, "forbidden", "Not allowed")
NOT_FOUND = Kind(404, "not-found", "No such thing")
METHOD = Kind(405, "method-not-allowed", "This path does not take this method")
TIMED_OUT = Kind(408, "timed-out", "The request took too long to arrive")
CONFLICT = Kind(409, "conflict", "It contradicts what is there")
TOO_LARGE = Kind(413, "too-large", "Over a size limit")
MEDIA = Kind(415, "unsupported-media-type", "Send JSON")
INVALID = Kind(422, "invalid", "The request breaks a rule")
HEAD_TOO_LARGE = Kind(431, "head-too-large", "The request's head is over a size limit")
INTERNAL = Kind(500, "internal", "An unexpected error")
BUSY = Kind(503, "busy", "No connection is free", LATER)
NO_SEARCH = Kind(503, "search-unavailable", "This search cannot be answered now", LATER)
NO_EMBEDDER = Kind(503, "embedder-unavailable", "The embedder cannot answer now", LATER)
NO_STORE = Kind(503, "store-unavailable", "The database cannot do it now", LATER)
READ_ONLY = Kind(503, "store-read-only", "The database cannot be written to", LATER)
UNUSABLE = Kind(503, "store-unusable", "The database needs a person", LATER)
FULL = Kind(507, "store-full", "The disk is full", LATER)

KINDS: Mapping[type[EmbedqError], Kind] = {
    NotFound: NOT_FOUND,
    Forbidden: FORBIDDEN,
    Conflict: CONFLICT,
    TooLarge: TOO_LARGE,
    Invalid: INVALID,
    SettingsError: INVALID,  # a setting that a request gave: the name of an embedder
    SearchUnavailable: NO_SEARCH,
    Refused: INVALID,
    StoreFull: FULL,
    StoreReadOnly: READ_ONLY,
    StoreUnusable: UNUSABLE,
    StoreError: NO_STORE,
    EmbedderError: NO_EMBEDDER,
    EmbedqError: INTERNAL,
}
OF_STATUS = {
    kind.status: kind
    for kind in (
        MALFORMED, FORBIDDEN, NOT_FOUND, METHOD, TIMED_OUT, TOO_LARGE, MEDIA, INVALID, HEAD_TOO_LARGE
    )
}  # fmt: skip

ANY_ROUTE = (401, 403, 413, 422, 431, 500, 503)


def answer(
    kind: Kind, detail: str, *, problems: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a problem document."""
    return Response(
        document(kind, detail, problems=problems),
        status_code=kind.status,
        headers={**kind.headers, **(headers or {})},
        media_type=MEDIA_TYPE,
    )


def document(kind: Kind, detail: str, *, problems: Mapping[str, str] | None = None) -> bytes:
    """Serialise a problem document in ASCII: a refused text may hold characters that UTF-8 cannot encode."""
    facts: dict[str, Any] = {
        "type": PREFIX + kind.slug,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }
    if problems:
        facts["problems"] = dict(problems)
    return json.dumps(facts).encode()


async def refuse(_: Request, error: Exception) -> Response:
    """Respond to one of our own errors."""
    kind = next((KINDS[known] for known in type(error).__mro__ if known in KINDS), INTERNAL)
    problems = {str(at): what for at, what in error.problems.items()} if isinstance(error, Invalid) else None
    return answer(kind, str(error) or kind.title, problems=problems)


async def refuse_http(_: Request, error: Exception) -> Response:
    """Respond to an error of the HTTP layer: an unknown path, a wrong method, an unreadable body."""
    assert isinstance(error, HTTPException)  # noqa: S101 it is registered for this type only
    phrase = HTTPStatus(error.status_code).phrase
    kind = OF_STATUS.get(error.status_code, Kind(error.status_code, phrase.lower().replace(" ", "-"), phrase))
    detail = "no such path: /docs lists them" if error.status_code == NOT_FOUND.status else error.detail
    return answer(kind, detail, headers=error.headers)


async def refuse_input(_: Request, error: Exception) -> Response:
    """Respond to a body, path or query that fails validation, naming each field."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 it is registered for this type only
    problems = {where(problem["loc"]): said(problem) for problem in error.errors()}
    detail = "; ".join(f"{place}: {what}" for place, what in list(problems.items())[:5])
    return answer(INVALID, detail, problems=problems)


def where(loc: tuple[str | int, ...]) -> str:
    """Name a field as its sender wrote it, without FastAPI's prefix for body and query; a long name is cut."""
    return ".".join(str(part)[:SHOWN_NAME] for part in loc[1:]) or str(loc[0])


def said(problem: Mapping[str, Any]) -> str:
    """Say what is wrong with a field."""
    if problem["type"] == "extra_forbidden":
        return "there is no such field"
    if problem["type"] == "missing":
        return "is missing"
    return str(problem["msg"])


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe problem responses for OpenAPI, including those that any route may give."""
    kinds = {kind.status: kind for kind in (*KINDS.values(), *OF_STATUS.values(), UNAUTHORIZED, NO_STORE)}
    of_bodies = (MEDIA.status,) if MALFORMED.status in statuses else ()
    wanted = sorted({*ANY_ROUTE, *of_bodies, *statuses})
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": kinds[status].title, "content": {MEDIA_TYPE: schema}} for status in wanted}
