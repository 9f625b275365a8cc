"""What applications call: put, get, delete, search, wait."""

from embedq.client.client import Client
from embedq.client.options import ClientOptions

__all__ = ["Client", "ClientOptions"]
