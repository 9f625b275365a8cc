"""The queue of a running API, for commands that are given its URL."""

import asyncio
import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from embedq.errors import SettingsError, StoreError
from embedq.settings import Settings, without_passwords

VARIABLE = "CHL_API_BASE_URL"
HEALTH_SECONDS = 5
EXTRA_SECONDS = 30  # on top of the wait that was requested


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects: the key must be sent only to the server in the settings."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 the library's signature
        """Return None, so that a redirect is an error like any other status."""


class RemoteQueue:
    """Pauses, drains and resumes through the API."""

    def __init__(self, settings: Settings) -> None:
        """Talk to the API that CHL_API_BASE_URL names, with our own key."""
        self._named = (settings.api_base_url or "").rstrip("/")
        self._address = _without_user(self._named)
        self._open = build_opener(_NoRedirects).open
        self._key = settings.api_key.get_secret_value() if settings.api_key else None

    async def answers(self) -> bool:
        """Say whether the API responds."""
        try:
            await self._call("GET", "/health", HEALTH_SECONDS)
        except StoreError:
            return False
        return True

    async def paused(self) -> bool:
        """Say whether leasing is stopped."""
        return bool((await self._call("GET", "/admin/queue/status", EXTRA_SECONDS))["paused"])

    async def pause(self) -> None:
        """Stop all leasing."""
        await self._call("POST", "/admin/queue/pause", EXTRA_SECONDS)

    async def resume(self) -> None:
        """Resume leasing."""
        await self._call("POST", "/admin/queue/resume", EXTRA_SECONDS)

    async def drain(self, seconds: float) -> bool:
        """Wait until no job can still make progress; say whether it was reached in time."""
        report = await self._call("POST", f"/admin/queue/drain?timeout={seconds:g}", seconds + EXTRA_SECONDS)
        return bool(report["status"] == "drained")

    async def _call(self, method: str, path: str, seconds: float) -> dict[str, Any]:
        return await asyncio.to_thread(self._ask, method, path, seconds)

    def _ask(self, method: str, path: str, seconds: float) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        request = Request(self._address + path, method=method, headers=headers)  # noqa: S310 the settings accept http(s) only
        try:
            with self._open(request, timeout=seconds) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, HTTPException, ValueError) as error:
            moved = f" (it points to another address: check {VARIABLE})" if _is_redirect(error) else ""
            raise StoreError(
                f"the API at {without_passwords(self._named)} did not take {method} {path}: {error}{moved}"
            ) from error


def _is_redirect(error: Exception) -> bool:
    return isinstance(error, HTTPError) and HTTPStatus.MULTIPLE_CHOICES <= error.code < HTTPStatus.BAD_REQUEST


def _without_user(url: str) -> str:
    """Remove user and password: the key authenticates, and the library would parse them as the host."""
    try:
        parts = urlsplit(url)
        readable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        readable = False
    if not readable or "@" in parts.path:
        raise SettingsError(
            f"{VARIABLE}={without_passwords(url)!r}: it must be an address such as http://127.0.0.1:8400"
        )
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
