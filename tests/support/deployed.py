"""Plans that are deployed to a real API server by the command line."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jobplans
from modak_deploy.model.plan import Plan
from modak_deploy.util.files import write_atomically

DIGEST = "sha256:" + "a" * 64


@dataclass
class Site:
    """A namespace of the cluster, and a folder of the user's."""

    rig: Path
    folder: Path
    namespace: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [str(self.rig / "bin/kubectl"), f"--kubeconfig={self.rig}/kubeconfig", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout

    def plan(self, program: str, **application: Any) -> Path:
        """Write a Plan of a shell program in an image; return its path."""
        job = application.pop("job", None)
        sources = tuple(jobplans.source(path, self.folder / path) for path in application.get("inputs", []))
        plan = jobplans.plan(["sh", "-c", program], Path("/unused"), sources=sources, job=job, **application)
        data = plan.model_dump(mode="json", by_alias=True)
        image = {"reference": "docker://example.org/team/probe:1", "digest": DIGEST}
        data["chosen"] |= {"runtime": "docker", "image": image}
        path = self.folder / "plan.json"
        write_atomically(path, Plan.model_validate(data).model_dump_json(by_alias=True))
        return path

    def modak(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.command(*arguments), cwd=self.folder, capture_output=True, text=True, check=False)

    def command(self, *arguments: str | Path) -> list[str]:
        action, *others = map(str, arguments)
        return [sys.executable, "-m", "modak_deploy", "kubernetes", action, *others, "--namespace", self.namespace]

    def everything(self) -> list[str]:
        listed = self.kubectl("get", "jobs,pods,configmaps", "-n", self.namespace, "-o", "name").split()
        return [name for name in listed if name != "configmap/kube-root-ca.crt"]

    def pods(self, prefix: str = "") -> list[str]:
        return [prefix + name for name in self._listed("pods", "{.metadata.name}")]

    def uids(self) -> list[str]:
        return self._listed("jobs,pods", "{.metadata.uid}")

    def _listed(self, kinds: str, what: str) -> list[str]:
        template = f'{{range .items[*]}}{what}{{"\\n"}}{{end}}'
        return sorted(self.kubectl("get", kinds, "-n", self.namespace, "-o", f"jsonpath={template}").split())

    def apply(self, manifest: str) -> None:
        self.kubectl("apply", "-n", self.namespace, "-f", "-", stdin=manifest)

    def until_phase(self, phase: str) -> None:
        for _ in range(300):
            if phase in self.kubectl("get", "pods", "-n", self.namespace, "-o", "jsonpath={.items[*].status.phase}"):
                return
            time.sleep(0.2)
        raise AssertionError(f"no pod is {phase}")
