"""Keys and addresses of providers; errors name the variable and never its value."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from embedq.errors import SettingsError


def key_in(environment: Mapping[str, str], variable: str, *, of: str) -> str:
    """Read a provider's key."""
    key = environment.get(variable, "").strip()
    if not key:
        raise SettingsError(
            f"{variable} is not set, and an {of} embedder needs it. A server of your own that asks for no key "
            "takes any word."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(f"{variable} holds characters that no key has (blanks, line ends or beyond ASCII).")
    return key


def address_in(environment: Mapping[str, str], variable: str, *, default: str) -> str:
    """Read a provider's address; an error does not show it, since it may hold a password."""
    url = environment.get(variable, "").strip() or default
    if not _is_web_address(url):
        raise SettingsError(
            f"{variable} must be an http:// or https:// address, such as http://127.0.0.1:8080/v1; "
            "in a password, / is written %2F and @ %40."
        )
    return url


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        readable = parts.port is None or parts.port > 0
    except ValueError:
        return False
    user, _, _ = parts.netloc.rpartition("@")
    odd = "@" in user + parts.path or parts.query or parts.fragment
    return readable and parts.scheme in {"http", "https"} and bool(parts.hostname) and not odd
