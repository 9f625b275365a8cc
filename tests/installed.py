"""Databases with the schema in them, one on each server: a test copies one, which takes a tenth of installing it."""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from embedq.stores.postgres.address import parse
from embedq.stores.postgres.schema import install
from embedq.testing.postgres import PostgresAddress


@pytest.fixture(scope="session")
def installed18(postgres18: PostgresAddress) -> Iterator[str]:
    yield from install_on(postgres18)


@pytest.fixture(scope="session")
def installed16(postgres16: PostgresAddress) -> Iterator[str]:
    yield from install_on(postgres16)


@pytest.fixture
def installed(request: pytest.FixtureRequest, postgres_version: int) -> str:
    """Name the database with the schema in it, on the server of this test."""
    return str(request.getfixturevalue(f"installed{postgres_version}"))


def install_on(server: PostgresAddress) -> Iterator[str]:
    """Make a database with the schema in it."""
    name = f"installed_{uuid4().hex}"
    run_apart(install(parse(server.create_database(name))))
    yield name
    server.drop_database(name)


def run_apart(work: Coroutine[Any, Any, object]) -> None:
    """Run this in a thread: the first to ask for a fixture may be another one inside an event loop."""
    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, work).result()
