"""The applications that the how-to pages show, as files."""

import re
from pathlib import Path

HOWTO = Path(__file__).parents[3] / "docs" / "howto"
FILE = re.compile(r"^```python\n(# ([\w/]+\.py)\n.*?)^```$", re.DOTALL | re.MULTILINE)


def write_files(page: str, folder: Path) -> None:
    """Write the files of a page."""
    for code, name in FILE.findall((HOWTO / page).read_text()):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
