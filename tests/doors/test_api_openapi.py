"""The OpenAPI page is true."""

import json
import re
from typing import Any

import pytest
from httpx import AsyncClient
from tests.doors.conftest import problem

CONTRACT = {
    "/collections": {"get"},
    "/collections/{collection}": {"put", "get", "delete"},
    "/collections/{collection}/records": {"post", "get", "delete"},
    "/collections/{collection}/records/{id}": {"get", "patch", "delete"},
    "/collections/{collection}/records/{id}/regenerate": {"post"},
    "/collections/{collection}/search": {"post"},
    "/jobs/embedding": {"post", "get"},
    "/jobs/embedding/{id}": {"get", "delete"},
    "/workers/register": {"post"},
    "/workers/{id}/heartbeat": {"post"},
    "/workers": {"get"},
    "/admin/queue/status": {"get"},
    "/admin/queue/pause": {"post"},
    "/admin/queue/resume": {"post"},
    "/admin/queue/drain": {"post"},
    "/admin/queue/retry-failed": {"post"},
    "/admin/queue/requeue-stale": {"post"},
    "/admin/dead": {"get"},
    "/admin/dead/stats": {"get"},
    "/admin/dead/{id}/replay": {"post"},
    "/admin/dead/replay": {"post"},
    "/health": {"get"},
    "/health/ready": {"get"},
    "/metrics": {"get"},
}


async def test_every_route_of_the_contract_is_described(http: AsyncClient) -> None:
    """The page holds the routes of the design, each with words of its own and with its problems."""
    schema = (await http.get("/openapi.json")).json()

    described = {path: set(methods) for path, methods in schema["paths"].items()}
    assert described.items() >= CONTRACT.items()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert path.startswith("/health") or "application/problem+json" in operation["responses"]["401"]["content"]


async def test_every_reference_leads_somewhere(http: AsyncClient) -> None:
    """No $ref of the page points to a schema that is not there."""
    schema = (await http.get("/openapi.json")).json()

    references = set(_references(schema))

    assert references <= {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}
    assert "#/components/schemas/NewRecords" in references


async def test_the_page_is_served(http: AsyncClient) -> None:
    """/docs shows it to people, and all that it loads comes from here: it works without a network."""
    page = await http.get("/docs")

    assert page.status_code == 200
    assert "text/html" in page.headers["Content-Type"]
    parts = [part for part in re.findall(r'(?:src|href)="([^"]+)"', page.text) if part != "data:,"]
    assert parts == ["docs/swagger-ui.css", "docs/swagger-ui-bundle.js", "docs/docs.js"]
    for part in parts:
        answer = await http.get(f"/{part}")
        assert (answer.status_code, len(answer.content) > 100) == (200, True)
    assert 'url: "openapi.json"' in (await http.get("/docs/docs.js")).text
    assert "default-src 'self';" in page.headers["Content-Security-Policy"]


async def test_the_address_says_what_is_here(http: AsyncClient) -> None:
    """A browser gets a page whose links lead somewhere, a program gets JSON with the same."""
    page = await http.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    facts = await http.get("/")

    assert "text/html" in page.headers["Content-Type"]
    assert "<script" not in page.text
    assert facts.json()["name"] == "embedq"
    links = re.findall(r'<a href="([^"]+)"', page.text)
    for link in [f"/{link}" for link in links] + [facts.json()[name] for name in ("docs", "openapi", "health")]:
        assert (await http.get(link)).status_code == 200, link
    assert facts.headers["Vary"] == page.headers["Vary"] == "Accept"


@pytest.mark.parametrize("path", ["/redoc", "/docs/README.md", "/docs/..%2Fapplication.py", "/docs/oauth2-redirect"])
async def test_the_page_serves_nothing_else(http: AsyncClient, path: str) -> None:
    """Only what the page is made of can be had."""
    problem(await http.get(path), 404, "not-found")


async def test_what_can_go_wrong_is_said(http: AsyncClient) -> None:
    """Each route that writes may meet a full disk; each that takes a body may be sent a bad one."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    routes = {(method, path): route for path, methods in paths.items() for method, route in methods.items()}
    writes = [at for at in routes if at[0] != "get" and at != ("post", "/admin/queue/drain")]
    bodies = [at for at, route in routes.items() if "requestBody" in route]

    assert [at for at in writes if "507" not in routes[at]["responses"]] == []
    assert [at for at in bodies if not {"400", "413", "415"} <= routes[at]["responses"].keys()] == []


async def test_the_examples_of_the_page_work(http: AsyncClient) -> None:
    """Each example body of the write route is taken as it stands."""
    schema = (await http.get("/openapi.json")).json()
    body = schema["paths"]["/collections/{collection}/records"]["post"]["requestBody"]["content"]["application/json"]

    for example in body["examples"].values():
        answer = await http.post("/collections/notes/records", content=json.dumps(example["value"]))
        assert answer.status_code == 201


def _references(node: Any) -> list[str]:  # noqa: ANN401 any JSON
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in _references(value)]
    if isinstance(node, list):
        return [found for value in node for found in _references(value)]
    return []
