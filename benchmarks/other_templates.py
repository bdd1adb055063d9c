"""How many TOSCA 1.3 service templates of other projects each tool accepts, and how many of these modak accepts.

    python benchmarks/other_templates.py FOLDER      # FOLDER is kept: the second run needs no network

The templates are those in the source distributions of tosca-parser, xOpera, Unfurl and Puccini on the package index,
and in the archives among them. Each difference is listed with what modak says. The first run installs Unfurl and
Puccini into .build/tosca. The exit code is 1 where xOpera accepts what modak rejects for it.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP), str(TOP / "tests" / "support")]

from modak_deploy.errors import InputError  # noqa: E402
from modak_deploy.tosca.profiles import Tool  # noqa: E402
from modak_deploy.tosca.validate import validate as check  # noqa: E402
from tosca_tools import NEEDS, make, validate  # noqa: E402

SOURCES = ("tosca-parser==2.15.0", "opera==0.7.0", "unfurl==1.2.0", "puccini==0.21.0")
_VERSION = re.compile(r"^[\"']?tosca_definitions_version[\"']?\s*:\s*[\"']?tosca_simple_yaml_1_3\b", re.MULTILINE)
_TOPOLOGY = re.compile(r"^[\"']?topology_template[\"']?\s*:", re.MULTILINE)


def fetch(folder: Path) -> None:
    """Download and unpack each source distribution unless it is there.

    pip asks a distribution for its metadata; Puccini's set-up downloads a compiler for that and fails without network,
    but pip leaves the unpacked source with --no-clean.
    """
    for source in SOURCES:
        name = source.partition("==")[0]
        unpacked = folder / name
        if unpacked.exists():
            continue
        work = folder / f"{name}.part"
        work.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-clean", "--no-deps", "--no-binary", ":all:"]
        subprocess.run(
            [*pip, source],
            cwd=work, check=False, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(work)},
        )  # fmt: skip
        archives = list(work.glob("*.tar.gz"))
        for remains in work.glob("pip-*") if archives else ():
            shutil.rmtree(remains)  # the same once more
        for archive in archives:
            with tarfile.open(archive) as packed:
                if hasattr(tarfile, "data_filter"):  # since Python 3.11.4 and 3.10.12
                    packed.extraction_filter = tarfile.data_filter
                packed.extractall(work)  # noqa: S202 - what the package index has of these four
        work.rename(unpacked)


def templates(folder: Path) -> Iterator[Path]:
    """Yield every service template; archives are unpacked beside themselves."""
    for archive in sorted([*folder.rglob("*.csar"), *folder.rglob("*.zip")]):
        unpacked = archive.with_name(archive.name + ".unpacked")
        try:
            if not unpacked.exists():
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(unpacked)  # noqa: S202 - names that leave the folder lose their dots
        except zipfile.BadZipFile:
            continue
    for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")]):
        text = path.read_text(errors="replace") if path.is_file() else ""
        if _VERSION.search(text) and _TOPOLOGY.search(text):
            yield path


def problems(path: Path, tool: Tool) -> list[str]:
    """Return what modak says of a template for a tool."""
    try:
        return [str(error) for error in check(path, None, tool)]
    except InputError as error:
        return [str(diagnostic) for diagnostic in error.diagnostics]


def main() -> int:
    """Print the table and the differences."""
    folder = Path(sys.argv[1])
    for tool in NEEDS:
        make(tool)
    fetch(folder)
    paths = list(templates(folder))
    print(f"{len(paths)} service templates of TOSCA 1.3", flush=True)
    missed = 0
    for name in get_args(Tool):
        accepted = [path for path in paths if validate(name, path).accepted]
        rejected = {path: found for path in accepted if (found := problems(path, name))}
        print(f"{name}: accepts {len(accepted)}, of these modak {len(accepted) - len(rejected)}", flush=True)
        for texts in rejected.values():
            print(*(f"    {text.replace(f'{folder}/', '')}" for text in texts), sep="\n", flush=True)
        missed += len(rejected) if name == "opera" else 0
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
