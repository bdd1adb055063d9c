"""A service on a host that ssh reaches, deployed by modak's own commands."""

import json
import re
import secrets
import subprocess
import sys
import urllib.request
from pathlib import Path

import yaml

from rig import TOP, Rig
from serving import free_ports

SERVER = TOP / "tests" / "data" / "applications" / "server.py"


class Deployed:
    """A service's document and the commands of its user; it is undeployed in the end."""

    def __init__(self, folder: Path, user: dict[str, str], rig: Rig, application: dict[str, object]) -> None:
        self.folder, self.environment, self.rig = folder, user, rig
        (self.port,) = free_ports(1)
        self.name = f"service-{secrets.token_hex(4)}"
        service = {"port": self.port, "health": "/", "start_limit": 40, "drain": 15}
        self.document = {
            "application": {
                "name": self.name,
                "type": "hpc",
                "script": "server.py",
                "arguments": ["{port}"],
                "inputs": ["version.txt"],
                **application,
            },
            "target": {"name": "host", "type": "machine", "host": "slurm-login", "python": "/usr/bin/python3"},
        }
        self.document["application"] = {k: v for k, v in self.document["application"].items() if v is not None}
        given = application.get("service")
        self.document["application"]["service"] = service | (given if isinstance(given, dict) else {})
        (folder / "server.py").write_bytes(SERVER.read_bytes())
        self.write()

    def write(self) -> None:
        (self.folder / "deploy.yml").write_text(yaml.safe_dump(self.document, sort_keys=False))

    def words(self, command: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "modak_deploy.cli", command, "deploy.yml", "--ssh-config",
                str(self.rig.ssh_config), "--json", *more]  # fmt: skip

    def modak(self, command: str, *more: str, code: int = 0) -> dict:
        done = subprocess.run(
            self.words(command, *more),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return json.loads(done.stdout)

    def version(self, text: str) -> None:
        (self.folder / "version.txt").write_text(text)

    def deploy(self, version: str | None = None, *more: str, code: int = 0) -> dict:
        if version is not None:
            self.version(version)
        return self.modak("deploy", *more, code=code)

    def get(self, path: str = "/") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as response:
            return response.read().decode()

    def processes(self, pattern: str) -> list[str]:
        """Return the processes of the host whose command line has the pattern; those of this service alone."""
        listed = self.rig.ssh("ps -e -o pid= -o args=").splitlines()
        return [line for line in listed if re.search(pattern, line) and self.name in line]

    def supervised(self) -> int:
        return len([line for line in self.processes("supervise.sh") if "/bin/sh" in line and "haproxy" not in line])

    def left(self) -> list[str]:
        """Return what there is of the service on its host: folders, processes, the port."""
        found = self.rig.ssh(f"ls -d .modak/runs/{self.name}* .modak/services/{self.name} 2>/dev/null; true").split()
        marks = self.rig.ssh(
            f"grep -lsz 'MODAK_DIRECTORY=.*{self.name}' /proc/[0-9]*/environ 2>/dev/null; true"
        ).split()
        listening = subprocess.run(["ss", "-ltnH", f"sport = :{self.port}"], capture_output=True, text=True).stdout
        return [*found, *marks, *([listening] if listening else [])]
