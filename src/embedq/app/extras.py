"""Libraries that only some installations have: which are missing, and the command that installs them."""

import shlex
import sys
from collections.abc import Mapping, Sequence

from embedq import embedders
from embedq.errors import SettingsError
from embedq.policy.naming import parse_embedder
from embedq.settings import Settings

SERVER = ("fastapi", "uvicorn", "httptools", "prometheus_client")


def require(settings: Settings, *, serving: bool) -> None:
    """Refuse to start without a library, before anything is created; one command installs all that are missing."""
    provider = embedders.find(parse_embedder(settings.embedder))
    needs = {provider.extra: provider.modules, "server": SERVER if serving else ()}
    lacks = {extra: lacking for extra, modules in needs.items() if (lacking := embedders.absent(modules))}
    if lacks:
        raise SettingsError(missing(lacks))


def missing(lacks: Mapping[str, Sequence[str]]) -> str:
    """Say how to install the libraries that extras lack into the Python that is running."""
    libraries = [library for some in lacks.values() for library in some]
    verb = "is" if len(libraries) == 1 else "are"
    command = f"{shlex.quote(sys.executable)} -m pip install 'embedq[{','.join(lacks)}]'"
    return f"{', '.join(libraries)} {verb} missing: run {command}"
