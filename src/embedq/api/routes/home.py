"""What is served here, for whoever opens the address: a page for a browser, JSON for a program."""

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from embedq import __version__
from embedq.api.route import StrictRoute

router = APIRouter(include_in_schema=False, route_class=StrictRoute)
ABOUT = "embedq keeps vectors in step with data: write records, and find them by meaning and by words."
PAGE = (Path(__file__).parents[1] / "static" / "home.html").read_text().format(about=ABOUT, version=__version__)
FACTS = {
    "name": "embedq",
    "version": __version__,
    "about": ABOUT,
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/health",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}


@router.get("/")
async def home(request: Request) -> Response:
    """Say what is here; it holds no data, and needs no key."""
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(PAGE, headers=HEADERS)
    return JSONResponse(FACTS, headers=HEADERS)
