"""Where the recipes of a catalogue lie, and what is in their files.

Apart from the recipes' models: every Plan names the version of its catalogue, which counts these files; few read them.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from modak_deploy.errors import InputError

DATA = Path(__file__).parent / "data" / "recipes"
_MOST = 64 * 1024**2
"""Bytes of a file."""
_PATTERNS = ("recipes*.yaml", "checks.yaml", "locks/*.txt", "build/*.j2")


def folders_beside(files: Iterable[Path]) -> list[Path]:
    """Return the folders with recipes beside a site's catalogue ``files``, without the shipped one."""
    folders = dict.fromkeys(file.parent / "recipes" for file in files)
    return [folder for folder in folders if folder != DATA and folder.is_dir()]


def contents_beside(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file from which the images of a catalogue are made, in a fixed order.

    InputError for a file that cannot be read.
    """
    for number, folder in enumerate([DATA, *folders_beside(files)]):
        for path in sorted(path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()):
            try:
                with path.open("rb") as file:
                    content = file.read(_MOST + 1)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", source=path) from None
            if len(content) > _MOST:
                raise InputError(f"the file is larger than {_MOST // 1024**2} MiB", source=path, code="too-large")
            yield f"{number}/{path.relative_to(folder)}", content
