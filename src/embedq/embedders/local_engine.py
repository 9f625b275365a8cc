"""One model and one thread per core for the whole process, shared by all its embedders."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from embedq.embedders.local_model import LocalModel
from embedq.embedders.local_threads import ModelThreads
from embedq.embedders.local_weights import locate

T = TypeVar("T")

_engines: "dict[Path, Engine]" = {}
_lock = threading.Lock()


class Engine:
    """A model and the threads that run it."""

    def __init__(self, model: LocalModel) -> None:
        """Start the threads; the model loads itself when it is needed."""
        self.model = model
        self.threads = ModelThreads()
        self.users = 0

    def do(self, work: Callable[..., T], *arguments: Any, urgent: bool = False) -> "asyncio.Future[T]":  # noqa: ANN401 - handed on
        """Run it on one of the threads; cancelling the future takes it out of the queue."""
        return asyncio.wrap_future(self.threads.submit(work, *arguments, urgent=urgent))


def take(environment: Mapping[str, str]) -> Engine:
    """Return the process's engine for these files, started if necessary."""
    source = locate(environment)
    with _lock:
        engine = _engines.get(source.folder)
        if engine is None:
            engine = _engines[source.folder] = Engine(LocalModel(source, environment))
        engine.users += 1
        return engine


def leave(engine: Engine) -> None:
    """Release an engine; the last user ends its threads."""
    with _lock:
        engine.users -= 1
        if engine.users:
            return
        for folder in [folder for folder, kept in _engines.items() if kept is engine]:
            del _engines[folder]
    engine.threads.stop()
