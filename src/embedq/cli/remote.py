"""The queue of a running API, for commands that are told where it is."""

import asyncio
import json
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from embedq.errors import StoreError
from embedq.settings import Settings, without_passwords

HEALTH_SECONDS = 5
EXTRA_SECONDS = 30  # an answer may come this much after the wait it was asked for


class RemoteQueue:
    """Pauses, drains and resumes through the API."""

    def __init__(self, settings: Settings) -> None:
        """Talk to the API that CHL_API_BASE_URL names, with our own key."""
        self._address = (settings.api_base_url or "").rstrip("/")
        self._key = settings.api_key.get_secret_value() if settings.api_key else None

    async def answers(self) -> bool:
        """Say whether the API is there."""
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
        """Let leasing go on."""
        await self._call("POST", "/admin/queue/resume", EXTRA_SECONDS)

    async def drain(self, seconds: float) -> bool:
        """Wait until what can still move has moved; say whether it has."""
        report = await self._call("POST", f"/admin/queue/drain?timeout={seconds:g}", seconds + EXTRA_SECONDS)
        return bool(report["status"] == "drained")

    async def _call(self, method: str, path: str, seconds: float) -> dict[str, Any]:
        return await asyncio.to_thread(self._ask, method, path, seconds)

    def _ask(self, method: str, path: str, seconds: float) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        request = Request(self._address + path, method=method, headers=headers)  # noqa: S310 settings take http only
        try:
            with urlopen(request, timeout=seconds) as answer:  # noqa: S310 the same
                found: dict[str, Any] = json.load(answer)
                return found
        except (URLError, TimeoutError, ValueError) as error:
            address = without_passwords(self._address)
            raise StoreError(f"the API at {address} did not take {method} {path}: {error}") from error
