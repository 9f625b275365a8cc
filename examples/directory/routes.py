"""The public side: enter, change, find and remove businesses."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request

from . import shown
from .directory import Directory
from .forms import Changes, NewEntry, Regenerate

router = APIRouter(prefix="/api/yellow-books", tags=["directory"])


def the_directory(request: Request) -> Directory:
    """Find the directory of this process."""
    directory: Directory = request.app.state.directory
    return directory


TheDirectory = Annotated[Directory, Depends(the_directory)]


@router.post("", status_code=201)
async def add(new: NewEntry, directory: TheDirectory) -> dict[str, Any]:
    """Enter a business. The answer does not wait for its embedding."""
    return shown.listing(await directory.add(new))


@router.get("/search")
async def search(
    q: Annotated[str, Query(description="What to look for, in any words.")],
    directory: TheDirectory,
    city: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> dict[str, Any]:
    """Find businesses by meaning and by words; `mode_used` and `reason` say how."""
    return shown.search(await directory.search(q, limit=limit, city=city))


@router.post("/regenerate", status_code=202)
async def regenerate_all(which: Regenerate, directory: TheDirectory) -> dict[str, Any]:
    """Embed many entries anew: those named, or all whose embedding stands so."""
    jobs = await directory.regenerate_all(which)
    return {"queued": sum(job is not None for job in jobs.values()), "jobs": jobs}


@router.get("/{id}")
async def read(
    id: UUID,  # noqa: A002 the word in the path
    directory: TheDirectory,
    include: Literal["embedding"] | None = None,
) -> dict[str, Any]:
    """Read an entry, with its vector if asked."""
    if include:
        return shown.with_vector(await directory.read(id, with_vector=True))
    return shown.listing(await directory.read(id))


@router.patch("/{id}")
async def change(id: UUID, changes: Changes, directory: TheDirectory) -> dict[str, Any]:  # noqa: A002 the word in the path
    """Change an entry. It is embedded again only if its text is another one."""
    return shown.listing(await directory.change(id, changes))


@router.delete("/{id}", status_code=204)
async def remove(id: UUID, directory: TheDirectory) -> None:  # noqa: A002 the word in the path
    """Take an entry out of the directory and out of search."""
    await directory.remove(id)


@router.post("/{id}/regenerate", status_code=202)
async def regenerate(id: UUID, directory: TheDirectory) -> dict[str, Any]:  # noqa: A002 the word in the path
    """Embed an entry anew: the button beside it."""
    return shown.listing(await directory.regenerate(id))
