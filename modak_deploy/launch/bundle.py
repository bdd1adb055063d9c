"""The launcher as files that travel: ``sitecustomize.py``, and this package beside it."""

import io
import os
import zipfile
from pathlib import Path
from typing import Dict

PACKAGE = "modak_launch"
"""The package's name where it runs: the program may have a package ``modak`` of its own."""
_HERE = Path(__file__).parent
_DATE = (1980, 1, 1, 0, 0, 0)


def files() -> Dict[str, bytes]:
    """Return the content of each file by its path below the folder that goes to PYTHONPATH."""
    content = {}
    for path in sorted(_HERE.rglob("*.py")):
        relative = path.relative_to(_HERE).as_posix()
        content[relative if relative == "sitecustomize.py" else "{}/{}".format(PACKAGE, relative)] = path.read_bytes()
    return content


def write_folder(folder: str) -> None:
    """Write the files below a folder."""
    for name, content in files().items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_archive(path: str) -> None:
    """Write an archive that Python can import from; the same bytes for the same files."""
    temporary = path + ".new"
    Path(temporary).write_bytes(archive())
    os.replace(temporary, path)


def archive() -> bytes:
    """Return such an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files().items():
            made.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
