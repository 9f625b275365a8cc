"""Which library a caller's connection is of. None of them is imported: it is known by the module of its class."""

import inspect

KNOWN = frozenset({"asyncpg", "psycopg", "sqlalchemy", "django"})


def driver_of(connection: object) -> str:
    """Name the library of a connection's class, or of one that it inherits from."""
    own, *others = (kind.__module__.partition(".")[0] for kind in type(connection).__mro__)
    return next((name for name in (own, *others) if name in KNOWN), own)


def is_for_asyncio(connection: object) -> bool:
    """Say whether its methods must be awaited."""
    return driver_of(connection) == "asyncpg" or inspect.iscoroutinefunction(getattr(type(connection), "close", None))
