"""One description of a site for commands, playbooks and blueprints: found over real ssh, used by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from rig import Rig
from sites import Site

HELLO = {
    "application": {
        "name": "hello", "type": "hpc", "executable": "sh",
        "arguments": ["-c", "hostname >out"], "outputs": ["out"],
    },
    "target": "cluster",
}  # fmt: skip


def modak(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "modak_deploy.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_cluster_is_added_over_ssh_and_used_by_name(slurm_site: Site, real_slurm: Rig, tmp_path: Path) -> None:
    home = tmp_path / "config"
    environment = {**slurm_site.environment, "XDG_CONFIG_HOME": str(home)}
    environment.pop("MODAK_SITES", None)
    config = ("--ssh-config", str(real_slurm.ssh_config))
    text = modak(environment, "site", "add", "slurm-login", "--name", "cluster", *config)
    path = home / "modak" / "sites.yaml"
    assert text.startswith(f"{path}: added the site 'cluster'")
    settings = yaml.safe_load(path.read_text())["sites"]["cluster"]
    assert settings["target"]["type"] == "slurm"
    assert settings["target"]["partitions"]
    assert modak(environment, "site", "check", "cluster", *config) == "cluster: as described\n"

    document = slurm_site.write(HELLO)
    plan = json.loads(modak(environment, "plan", str(document), "--json", *config))
    assert (plan["target"]["name"], plan["target"]["host"]) == ("cluster", "slurm-login")

    slurm_site.environment.update(XDG_CONFIG_HOME=str(home))
    played = slurm_site.play("deploy", "-e", json.dumps({"modak_site": {"polling": {"first": 1.0}}}))
    assert played.code == 0, played.text
    assert "the site 'cluster' stands over modak_site of the host slurm-login" in " ".join(played.text.split())
    assert (slurm_site.results / "hello" / "out").read_text().strip()
    undeployed = slurm_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text


def test_a_playbook_refuses_a_file_that_others_can_write_to(machine_site: Site, tmp_path: Path) -> None:
    path = tmp_path / "config" / "modak" / "sites.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("version: 1\nsites:\n  cluster: {target: {workspace: /nowhere}}\n")
    path.chmod(0o666)
    machine_site.environment.update(XDG_CONFIG_HOME=str(tmp_path / "config"))
    machine_site.write(HELLO)
    played = machine_site.play("deploy")
    assert played.code != 0
    assert "everybody can write to the file, so its settings are not used" in " ".join(played.text.split())
    assert not os.path.lexists("/nowhere")
