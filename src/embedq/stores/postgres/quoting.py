"""Names in SQL that is put together."""

import re

# The type of vectors, as our scripts name it: neither part of another name nor of a text.
VECTOR = re.compile(r"(?<!['.\w])vector\b(?!')")


def quoted(name: str) -> str:
    """Write a name so that SQL cannot misread it."""
    return '"' + name.replace('"', '""') + '"'


def with_vectors_of(schema: str, script: str) -> str:
    """Name the type of vectors with its schema, outside of comments.

    That schema is often one into which everybody may put functions: it is never searched for names while ours are made.
    """
    return "".join(_qualified(line, quoted(schema)) for line in script.splitlines(keepends=True))


def _qualified(line: str, schema: str) -> str:
    code, dashes, comment = line.partition("--")
    return VECTOR.sub(lambda _: f"{schema}.vector", code) + dashes + comment
