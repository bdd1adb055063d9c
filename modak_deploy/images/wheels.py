"""The Python packages of an image, fetched by the controller's pip so that the build needs no package index."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.define import WORK, Definition
from modak_deploy.model.image import ImageEntry
from modak_deploy.util.architectures import MACHINES

CONFIGURATION = f"[global]\nno-index = true\nfind-links = {WORK}/pip\n"
"""What the image's pip is told when the packages come with the definition."""
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
"""Names before PEP 600 by the minor number of glibc; of other processors than x86_64 there is the last alone."""


def fetch(definition: Definition, folder: Path) -> list[Path]:
    """Put all packages that the definition lists into ``folder``, each checked against its hash; return the files.

    What is there already is not fetched again. TargetError gives pip's own reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if "requirements.txt" not in definition.files:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("tools.txt", "requirements.txt"):
            path = Path(scratch, name)
            path.write_text(definition.files[name], encoding="utf-8")
            _download(definition.entry, path, folder, [])
        if package := definition.source_package:
            _download(definition.entry, Path(scratch, "requirements.txt"), folder, ["--no-binary", package])
    return sorted(folder.iterdir())


def _download(entry: ImageEntry, requirements: Path, folder: Path, more: list[str]) -> None:
    if entry.python is None or entry.glibc is None:
        raise InputError(f"the image '{entry.name}' names no 'python' and 'glibc', for which packages could be fetched")
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--require-hashes", "--requirement", str(requirements), "--dest", str(folder), "--find-links", str(folder),
        "--python-version", ".".join(entry.python.split(".")[:2]), "--implementation", "cp",
        *(option for platform in _platforms(entry) for option in ("--platform", platform)), *more,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = said[-1].removeprefix("ERROR:").strip() if said else f"pip ended with exit code {done.returncode}"
        raise TargetError(f"the packages of the image '{entry.name}' cannot be fetched: {why}")


def _platforms(entry: ImageEntry) -> Iterator[str]:
    """Yield pip's names for what runs with the image's C library, the newest first."""
    machine = MACHINES[entry.architecture]
    minor = int((entry.glibc or "0.0").split(".")[1])
    for number in range(minor, 4, -1):
        yield f"manylinux_2_{number}_{machine}"
        if number in _LEGACY and (machine == "x86_64" or number == max(_LEGACY)):
            yield f"{_LEGACY[number]}_{machine}"
    yield f"linux_{machine}"
