"""xOpera, run from a user's folder on a blueprint in it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from rig import TOP, Rig
from sites import TINY, Ended, Running

BLUEPRINTS = TOP / "tosca" / "blueprints"
TINY_BLUEPRINT = TOP / "tests" / "data" / "blueprints" / "tiny.yaml"


def connection(rig: Rig) -> dict[str, Any]:
    """Return the inputs that lead to the rig's login node."""
    login = yaml.safe_load(rig.inventory.read_text())["all"]["hosts"]["slurm-login"]
    return {
        "host": login["ansible_host"],
        "port": login["ansible_port"],
        "user": login["ansible_user"],
        "private_key": login["ansible_ssh_private_key_file"],
        "known_hosts": str(rig.folder / "client" / "known_hosts"),
    }


def folders(workspace: Path) -> list[Path]:
    """Return the folders of the jobs that are below a workspace."""
    return sorted((workspace / "runs").glob("*")) if workspace.exists() else []


@contextmanager
def nothing_left(workspace: Path) -> Iterator[None]:
    """Check that what runs inside leaves no job below a workspace, where other tests may have left theirs."""
    before = folders(workspace)
    yield
    left = [
        f"{folder}: {sorted(path.name for path in folder.iterdir())}"
        for folder in folders(workspace)
        if folder not in before
    ]
    assert not left, left  # pytest explains no assertion of this module


class Orchestrator:
    """A folder with a blueprint, its inputs, and xOpera's own state."""

    def __init__(self, folder: Path, environment: dict[str, str], blueprint: Path) -> None:
        self.folder, self.environment, self.blueprint = folder, environment, blueprint

    @classmethod
    def on_tiny(cls, folder: Path, environment: dict[str, str], target: str) -> "Orchestrator":
        """Return one for the tiny application on a target of the given node type."""
        project = folder / "blueprint"
        shutil.copytree(BLUEPRINTS / "modak", project / "modak")
        shutil.copy(TINY, project)
        text = TINY_BLUEPRINT.read_text().replace("modak.nodes.target.Machine", f"modak.nodes.target.{target}")
        (project / "tiny.yaml").write_text(text)
        return cls(folder, environment, project / "tiny.yaml")

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def inputs(self, **values: Any) -> None:
        """Write the file of inputs."""
        (self.folder / "inputs.yaml").write_text(yaml.safe_dump({"results": str(self.results), **values}))

    def run(self, *words: str, timeout: float = 300) -> Ended:
        """Run one command of xOpera to its end."""
        with self.start(*words) as running:
            return running.end(timeout)

    def deploy(self, *words: str, timeout: float = 300) -> Ended:
        """Run ``opera deploy`` on the blueprint with the inputs."""
        return self.run("deploy", *words, "-i", "inputs.yaml", str(self.blueprint), timeout=timeout)

    @contextmanager
    def start(self, *words: str) -> Iterator[Running]:
        """Start one command of xOpera, in a process group of its own, and leave it running."""
        process = subprocess.Popen(
            ["opera", *words],
            cwd=self.folder, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def outputs(self) -> dict[str, Any]:
        """Return the outputs by name."""
        ended = self.run("outputs", "-f", "yaml")
        assert ended.code == 0, ended.text
        return {name: output["value"] for name, output in yaml.safe_load(ended.text).items()}
