"""The wheel and the collection, built and installed as a user would, into folders of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import modak_deploy
import plugins
from rig import TOP
from sites import TINY

COLLECTION = "ansible_collections/modak/deploy/"
IN_THE_WHEEL = ["modak_deploy", "meta", "playbooks", "plugins", "roles", "tosca"]
IN_THE_COLLECTION = {
    "CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "SECURITY.md",
    "changelogs", "docs", "examples", "meta", "playbooks", "plugins", "requirements.txt", "roles", "tosca",
}  # fmt: skip


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=env, cwd=cwd, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def tracked(*folders: str) -> set[str]:
    """Return the files that git knows or would take, below these folders."""
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=TOP).splitlines()
    return {name for name in names if (TOP / name).exists()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, TOP)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection's archive, built in the checkout as it is, with all that lies about there."""
    folder = tmp_path_factory.mktemp("archive")
    run(Path(sys.executable).parent / "ansible-galaxy", "collection", "build", TOP, "--output-path", folder)
    (path,) = folder.glob("*.tar.gz")
    return path


class Installed:
    """A virtual environment with the wheel and nothing of the checkout."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True, symlinks=True)
        self.bin = folder / "venv" / "bin"
        run(self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHON", "MODAK_"))},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "ANSIBLE_HOME": str(folder / "ansible"),
            "ANSIBLE_NOCOLOR": "true",
        }

    def run(self, program: str, *arguments: str | Path, **variables: str) -> str:
        return run(self.bin / program, *arguments, env={**self.environment, **variables}, cwd=self.folder)

    def deploy_tiny(self, **variables: str) -> dict[str, object]:
        """Deploy the tiny application on this machine and return its metrics."""
        (self.folder / TINY.name).write_bytes(TINY.read_bytes())
        application = {"name": "tiny", "script": TINY.name, "metrics": "metrics.json"}
        target = {
            "name": "localhost",
            "python": str(self.bin / "python"),
            "workspace": str(self.folder / "jobs"),
            "polling": {"first": 0.2},
        }
        document = self.folder / "deploy.yml"
        document.write_text(yaml.safe_dump({"application": application, "target": target}))
        results = f"results={self.folder / 'results'}"
        self.run("ansible-playbook", "modak.deploy.deploy", "-e", f"deployment={document}", "-e", results, **variables)
        (metrics,) = (self.folder / "results").rglob("metrics.json")
        return json.loads(metrics.read_text())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def test_the_wheel_holds_all_that_git_knows_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {name if name.startswith("modak_deploy/") else COLLECTION + name for name in tracked(*IN_THE_WHEEL)}
    wanted |= {COLLECTION + name for name in ("LICENSE", "README.md", "galaxy.yml")}
    wanted.add(f"modak_deploy-{modak_deploy.__version__}.data/data/share/man/man1/modak.1")
    assert names == wanted


def test_the_installed_command_tells_its_version_and_schema(installed: Installed) -> None:
    assert modak_deploy.__version__ in installed.run("modak", "--version")
    schema = json.loads(installed.run("modak", "schema", "plan"))
    assert schema["properties"]["schema"]["const"] == "modak.plan/2"


def test_the_installed_manual_page_is_that_of_the_command(installed: Installed) -> None:
    page = installed.bin.parent / "share" / "man" / "man1" / "modak.1"
    assert page.read_text().startswith('.TH MODAK 1 "" "modak ')
    if shutil.which("man"):
        assert installed.run("/usr/bin/env", "man", "--where", "modak").strip() == str(page)


def test_extensions_are_found_once_they_are_installed_beside_it(installed: Installed) -> None:
    names = {"target": "shellqueue", "request": "treerun"}
    before = {kind: installed.run("modak", "schema", kind) for kind in names}
    for name in names.values():
        installed.run("pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", plugins.DATA / name)
    after = {kind: installed.run("modak", "schema", kind) for kind in names}
    installed.run("pip", "uninstall", "--quiet", "--yes", *(f"modak-{name}" for name in names.values()))
    for kind, name in names.items():
        assert f'"{name}"' not in before[kind]
        assert f'"{name}"' in after[kind]
        assert installed.run("modak", "schema", kind) == before[kind]


@pytest.mark.parametrize("module", ["optimise", "batch_job", "batch_job_info"])
def test_the_installed_modules_are_documented(installed: Installed, module: str) -> None:
    text = installed.run("ansible-doc", "--type", "module", f"modak.deploy.{module}")
    assert f"modak.deploy.{module}" in text
    assert "EXAMPLES" in text


@pytest.mark.parametrize("role", ["application", "batch_job"])
def test_the_installed_roles_are_documented(installed: Installed, role: str) -> None:
    assert f"modak.deploy.{role}" in installed.run("ansible-doc", "--type", "role", f"modak.deploy.{role}")


@pytest.mark.parametrize("playbook", sorted(path.stem for path in (TOP / "playbooks").glob("*.yml")))
def test_the_installed_playbooks_are_well_formed(installed: Installed, playbook: str) -> None:
    installed.run("ansible-playbook", f"modak.deploy.{playbook}", "--syntax-check")


def test_the_installed_wheel_deploys(installed: Installed) -> None:
    assert installed.deploy_tiny()["sum"] == sum(n * n for n in range(1000))


def test_the_archive_holds_the_collection_and_nothing_else(collection: Path) -> None:
    with tarfile.open(collection) as archive:
        files = {member.name for member in archive if not member.isdir()}
    assert {name.split("/")[0] for name in files} == IN_THE_COLLECTION
    known = tracked(*sorted(IN_THE_COLLECTION - {"FILES.json", "MANIFEST.json"}))
    assert files - {"FILES.json", "MANIFEST.json"} == known


def test_the_archive_installs_offline_and_deploys(installed: Installed, collection: Path, tmp_path: Path) -> None:
    path = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path)}
    installed.run("ansible-galaxy", "collection", "install", "--offline", "-p", tmp_path, collection, "--force", **path)
    about = json.loads(installed.run("ansible-doc", "--json", "modak.deploy.optimise", **path))
    assert about["modak.deploy.optimise"]["doc"]["filename"].startswith(str(tmp_path))
    installed.run("ansible-playbook", "modak.deploy.undeploy", "--syntax-check", **path)
    assert installed.deploy_tiny(**path)["sum"] == sum(n * n for n in range(1000))


def test_all_tell_the_same_version() -> None:
    galaxy = yaml.safe_load((TOP / "galaxy.yml").read_text())
    assert galaxy["version"] == modak_deploy.__version__
    changes = (TOP / "CHANGELOG.md").read_text()
    assert re.search(rf"^## v{re.escape(modak_deploy.__version__)}$", changes.replace("\\", ""), re.MULTILINE)


def test_an_execution_environment_gets_the_library() -> None:
    metadata = yaml.safe_load((TOP / "meta" / "execution-environment.yml").read_text())
    requirements = (TOP / metadata["dependencies"]["python"]).read_text()
    assert re.search(r"^modak-deploy>=", requirements, re.MULTILINE)
