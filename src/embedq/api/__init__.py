"""The HTTP API: FastAPI routes over a client and an operator, and the server that runs them."""

from embedq.api.application import create_app
from embedq.api.connections import Bounds
from embedq.api.server import Server

__all__ = ["Bounds", "Server", "create_app"]
