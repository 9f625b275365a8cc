"""URLs of databases, and the passwords in them."""

import re
from urllib.parse import unquote

_CREDENTIALS = re.compile(r"(?P<before>://[^/?#]*?:)(?P<secret>[^/?#]*)(?=@)")
_PARAMETER = re.compile(r"(?P<before>[?&](?:ssl)?password=)(?P<secret>[^&#]*)", re.IGNORECASE)


def without_passwords(url: str) -> str:
    """Write a URL as it may be shown."""
    return _PARAMETER.sub(r"\g<before>***", _CREDENTIALS.sub(r"\g<before>***", url))


def passwords(url: str) -> list[str]:
    """List the passwords of a URL, as they are written and as they are meant."""
    found = [match["secret"] for pattern in (_CREDENTIALS, _PARAMETER) for match in pattern.finditer(url)]
    return list(dict.fromkeys(text for secret in found if secret for text in (secret, unquote(secret))))
