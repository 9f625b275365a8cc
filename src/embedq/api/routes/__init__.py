"""The routes, one file per noun: parse, one call, shape the answer."""

from fastapi import APIRouter

from embedq.api.routes import collections, dead, docs, health, home, jobs, queue, records, search, workers

ROUTERS: tuple[APIRouter, ...] = (
    records.router,
    search.router,
    collections.router,
    jobs.router,
    workers.router,
    queue.router,
    dead.router,
    health.router,
    docs.router,
    home.router,
)

__all__ = ["ROUTERS"]
