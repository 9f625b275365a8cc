"""Checks of the API's keys."""

from hmac import compare_digest

from pydantic import SecretStr

LEAST = 16  # characters: fewer can be guessed
HOW = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


def check_keys(api: SecretStr | None, read: SecretStr | None) -> None:
    """Refuse keys that are short, equal or not valid in a header. They are never shown."""
    for variable, secret in (("EMBEDQ_API_KEY", api), ("EMBEDQ_READ_KEY", read)):
        key = "" if secret is None else secret.get_secret_value()
        if secret is not None and len(key) < LEAST:
            raise ValueError(f"{variable} is too short: it must have {LEAST} characters or more; {HOW}")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ValueError(f"{variable} holds blanks, line ends or letters beyond ASCII, which a header cannot carry")
    if api is not None and read is not None and _same(api, read):
        raise ValueError(f"EMBEDQ_READ_KEY is the same as EMBEDQ_API_KEY, so readers could write: {HOW}")


def _same(one: SecretStr, other: SecretStr) -> bool:
    return compare_digest(one.get_secret_value(), other.get_secret_value())
