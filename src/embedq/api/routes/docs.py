"""The page that documents the API. It loads everything from this server, so it works offline."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from fastapi import Path as InPath
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from embedq.api.route import StrictRoute

router = APIRouter(include_in_schema=False, route_class=StrictRoute)
STATIC = Path(__file__).parents[1] / "static"
PARTS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "docs.js": "text/javascript"}
# No inline scripts, nothing from other hosts, in no frame; Swagger UI needs inline styles and data: images.
OWN_ONLY = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",  # so that an upgrade takes effect
}


@router.get("/docs")
async def page() -> FileResponse:
    """Show the API."""
    return FileResponse(STATIC / "docs.html", media_type="text/html", headers=OWN_ONLY)


@router.get("/docs/{part:segment}")
async def part(part: Annotated[str, InPath(max_length=64)]) -> FileResponse:
    """Serve what the page is made of."""
    if part not in PARTS:
        raise HTTPException(404)
    return FileResponse(STATIC / part, media_type=PARTS[part], headers=OWN_ONLY)
