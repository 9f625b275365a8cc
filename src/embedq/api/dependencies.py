"""What the routes call. Each dependency is async, since FastAPI sends others to a thread."""

from typing import Annotated

from fastapi import Depends, Request

from embedq.api.choices import Choices
from embedq.client import Client
from embedq.metrics import Metrics
from embedq.operator import Operator


async def _client(request: Request) -> Client:
    client: Client = request.app.state.client
    return client


async def _operator(request: Request) -> Operator:
    operator: Operator = request.app.state.operator
    return operator


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


async def _choices(request: Request) -> Choices:
    choices: Choices = request.app.state.choices
    return choices


TheClient = Annotated[Client, Depends(_client)]
TheOperator = Annotated[Operator, Depends(_operator)]
TheChoices = Annotated[Choices, Depends(_choices)]
TheMetrics = Annotated[Metrics, Depends(_metrics)]
