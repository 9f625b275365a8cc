"""Names in generated SQL."""

import re

# The vector type as our scripts write it: not part of another name or of a string.
VECTOR = re.compile(r"(?<!['.\w])vector\b(?!')")


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def with_vectors_of(schema: str, script: str) -> str:
    """Qualify the vector type with its schema, outside of comments.

    Often any role may create functions in that schema: it is never on the search path while ours are created.
    """
    return "".join(_qualified(line, quoted(schema)) for line in script.splitlines(keepends=True))


def _qualified(line: str, schema: str) -> str:
    code, dashes, comment = line.partition("--")
    return VECTOR.sub(lambda _: f"{schema}.vector", code) + dashes + comment
