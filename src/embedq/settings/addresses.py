"""URLs of databases and servers, and the secrets in them.

Malformed URLs must be redacted too: a mistyped one may have a password with an unescaped @, slash or hash. So
everything up to the last @ counts as user and password, and too much is redacted rather than too little.
"""

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
# The scheme, a user, and what precedes the last @ (which may be a full-width character).
_CREDENTIALS = re.compile(
    r"^(?P<before>\s*(?:[a-z][a-z0-9+.-]*:/+)?)(?P<user>[^:/?#@]*)(?P<colon>:?)(?P<secret>.*)(?=[@\uff20\ufe6b])",
    re.IGNORECASE | re.DOTALL,
)
_PARAMETER = re.compile(r"(?P<before>[?&;](?P<name>[^=&;?]*)=)(?P<secret>[^&#]*)")
_WORD_PAIR = re.compile(r"(?P<before>\b\w*pass\w*\s*=\s*)(?P<secret>'(?:[^'\\]|\\.)*'|[^\s&#]+)", re.IGNORECASE)
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|api_?key", re.IGNORECASE)
_FILE = "sqlite:///"  # a path: it has no secrets
_WEB = ("http:", "https:")  # a user without a password may be a token
_PLAIN_USER = re.compile(r"[\w.+-]*", re.ASCII)


def without_passwords(url: str) -> str:
    """Redact a URL."""
    if url.startswith(_FILE):
        return url
    shown = _WORD_PAIR.sub(rf"\g<before>{HIDDEN}", _PARAMETER.sub(_parameter_shown, url))
    return _CREDENTIALS.sub(_credentials_shown, shown)


def passwords(url: str) -> list[str]:
    """List the secrets of a URL, encoded and decoded."""
    if url.startswith(_FILE):
        return []
    found = [match["secret"] for match in _PARAMETER.finditer(url) if _is_secret(match["name"])]
    found += [match["secret"].strip("'") for match in _WORD_PAIR.finditer(url)]
    if match := _CREDENTIALS.match(_PARAMETER.sub(_parameter_shown, url)):
        found.append(match["secret"] if match["colon"] else "" if _is_shown(match) else match["user"] + match["secret"])
    return list(
        dict.fromkeys(text for secret in found if secret for text in (secret, unquote(secret), unquote_plus(secret)))
    )


def _parameter_shown(match: re.Match[str]) -> str:
    return match["before"] + HIDDEN if _is_secret(match["name"]) else match[0]


def _credentials_shown(match: re.Match[str]) -> str:
    if match["colon"]:
        return f"{match['before']}{match['user']}:{HIDDEN}"
    return match[0] if _is_shown(match) else match["before"] + HIDDEN


def _is_shown(match: re.Match[str]) -> bool:
    """Say whether a user without a password is only a name, not a token."""
    plain = not match["secret"] and _PLAIN_USER.fullmatch(match["user"]) is not None
    return plain and not match["before"].lower().lstrip().startswith(_WEB)


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(unquote(name)) is not None
