"""One document and one blueprint that name no target, and a user whose sites one input chooses among."""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

import yaml

from orchestrator import Orchestrator
from sites import Ended, Site

NODE = {"cores": 2, "microarchitecture": "zen4", "memory": "4 GiB"}
IMAGE = f"docker://example.org/team/anywhere@sha256:{'a' * 64}"
"""Used on targets that run nothing but images; it is in no registry."""
RUNTIMES = ["native", "docker"]
SUM = 332833500
"""What the application computes, wherever it runs."""


def unused_name() -> str:
    """Return a run's name that no run before had."""
    return f"anywhere-{secrets.token_hex(4)}"


def workstation(folder: Path) -> dict[str, Any]:
    """Return this machine as a target."""
    return {
        "type": "machine",
        "workspace": str(folder / "workspace"),
        "python": "/usr/bin/python3",
        "runtimes": ["native"],
        "node": {**NODE, "microarchitecture": "zen3"},
    }


def document(name: str) -> dict[str, Any]:
    """Return the document, which is the same for all targets."""
    return {
        "application": {
            "name": name,
            "script": "tiny.py",
            "type": "hpc",
            "arguments": ["--seconds", "0.5"],
            "outputs": ["metrics.json"],
            "metrics": "metrics.json",
            "image": IMAGE,
            "workload": {"model": name, "unit": "run", "units": 1},
        },
        "request": {"runtimes": RUNTIMES},
        "job": {"wall_time": "5m"},
    }


class Anywhere:
    """A user's folder with the document, the blueprint, and the description of the sites in the user's own file."""

    def __init__(self, folder: Path, environment: dict[str, str], targets: dict[str, Any]) -> None:
        self.folder, self.environment = folder, {**environment, "XDG_CONFIG_HOME": str(folder / "config")}
        described = folder / "config" / "modak" / "sites.yaml"
        described.parent.mkdir(parents=True)
        described.write_text(
            yaml.safe_dump({"version": 1, "sites": {name: {"target": target} for name, target in targets.items()}})
        )
        self.name = unused_name()
        self.site = Site(folder, self.environment, None)
        self.site.write(document(self.name))

    def play(self, playbook: str, site: str, *arguments: str, timeout: float = 300) -> Ended:
        """Run a playbook with the document, and a second one whose only line is the name of the site."""
        (self.folder / "site.yml").write_text(f"target: {site}\n")
        files = f"deployment={self.folder}/deploy.yml,{self.folder}/site.yml"
        where = ["-e", files, "-e", f"results={self.folder}/{site}"]
        return self.site.play(playbook, *where, *arguments, timeout=timeout)

    def played(self, site: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the Plan and the metrics of a run by the playbooks."""
        folder = self.folder / site / self.name
        return json.loads((folder / "plan.json").read_text()), json.loads((folder / "metrics.json").read_text())

    def opera(self) -> Orchestrator:
        """Return xOpera on the blueprint, whose input ``site`` is the name of the site."""
        opera = Orchestrator.on_tiny(self.folder, self.environment, "Site")
        blueprint = yaml.safe_load(opera.blueprint.read_text())
        topology = blueprint["topology_template"]
        topology["inputs"]["site"] = {"type": "string", "default": ""}
        nodes = topology["node_templates"]
        nodes["target"]["properties"] = {"site": {"get_input": "site"}}
        nodes["tiny"]["properties"] |= {"image": IMAGE, "request": {"runtimes": RUNTIMES}, "outputs": ["metrics.json"]}
        opera.blueprint.write_text(yaml.safe_dump(blueprint))
        return opera

    def orchestrated(self, opera: Orchestrator, site: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Deploy the blueprint to a site; return its outputs and the metrics of the run."""
        opera.inputs(name=self.name, site=site)
        deployed = opera.deploy(timeout=300)
        if deployed.code:
            raise AssertionError(deployed.text)
        outputs = opera.outputs()
        return outputs, json.loads((Path(outputs["results_path"]) / "metrics.json").read_text())

    def undeploy(self, opera: Orchestrator) -> None:
        """Undeploy it, and forget what xOpera keeps."""
        undeployed = opera.run("undeploy", timeout=300)
        if undeployed.code:
            raise AssertionError(undeployed.text)
        shutil.rmtree(self.folder / ".opera")
