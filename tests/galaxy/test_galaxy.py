"""The collection and the distribution by the tools of those who take them: Galaxy, execution environments, the index.

MODAK_GALAXY_TOOLS names the folder `bin` of a virtual environment with galaxy-importer, antsibull-docs,
ansible-builder, build and twine; each test is skipped without its tool.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("MODAK_GALAXY_TOOLS", "/nonexistent"))
BIN = Path(sys.executable).parent


def tool(name: str) -> str:
    """Return the path of a tool; the test is skipped where it is absent."""
    path = shutil.which(str(TOOLS / name)) or shutil.which(name)
    if path is None:
        pytest.skip(f"no {name}: install it, and name its folder in MODAK_GALAXY_TOOLS")
    return path


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{TOOLS}{os.pathsep}{os.environ['PATH']}", **variables}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    build = TOP / "scripts" / "build_collection.py"
    run(sys.executable, build, "--repository", "https://example.org/modak", "--output", folder)
    (path,) = folder.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def installed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection's folder, unpacked below ansible_collections."""
    folder = tmp_path_factory.mktemp("installed") / "ansible_collections" / "modak" / "deploy"
    folder.mkdir(parents=True)
    with tarfile.open(archive) as file:
        file.extractall(folder)  # noqa: S202 - built by this test
    return folder


def test_galaxy_imports_it(archive: Path, tmp_path: Path) -> None:
    tool("galaxy-importer") if shutil.which(str(TOOLS / "galaxy-importer")) else tool("python")
    config = tmp_path / "importer.cfg"
    switches = ("RUN_ANSIBLE_TEST", "RUN_ANSIBLE_LINT", "RUN_FLAKE8")  # they are steps of their own of make test
    config.write_text("[galaxy-importer]\n" + "".join(f"{name}=False\n" for name in switches))
    printed = run(
        TOOLS / "python", "-m", "galaxy_importer.main", archive, cwd=tmp_path, GALAXY_IMPORTER_CONFIG=str(config)
    )
    assert "Importer processing completed successfully" in printed
    assert "ERROR" not in printed and "No README found" not in printed


def test_links_in_the_archive_work(installed: Path) -> None:
    import re

    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")
    for page in (installed / "README.md", *installed.glob("roles/*/README.md")):
        assert [t for t in link.findall(page.read_text()) if not (page.parent / t).exists()] == [], page


def test_the_documentation_of_the_collection(installed: Path) -> None:
    tool("antsibull-docs")
    run(TOOLS / "antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", installed)


def test_what_an_execution_environment_needs(installed: Path) -> None:
    tool("ansible-builder")
    printed = run(TOOLS / "ansible-builder", "introspect", installed.parents[2])
    requirement = next(
        line for line in (installed / "requirements.txt").read_text().splitlines() if line and line[0] not in "# "
    )
    assert requirement in printed
    assert "from collection modak.deploy" in printed


def test_the_distribution_for_the_index(tmp_path: Path) -> None:
    tool("twine")
    run(TOOLS / "python", "-m", "build", "--outdir", tmp_path, TOP)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    run(TOOLS / "twine", "check", "--strict", *files)
