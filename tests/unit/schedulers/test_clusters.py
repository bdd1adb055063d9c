"""Sites with several Slurm clusters: the job that is submitted is the one that is asked for and cancelled."""

import os
import subprocess
from pathlib import Path

import pytest

from modak_deploy.schedulers import registry
from scheduler_parts import TAG, make

PROGRAMS = ("sbatch", "squeue", "scontrol", "sacct", "scancel")
# Each says where it would look: its own option wins over its environment, and that over the login node's cluster.
_PROGRAM = """#!/bin/sh
cluster=${{{variable}:-${{SLURM_CLUSTERS:-own}}}}
for option; do case $option in --clusters=*) cluster=${{option#*=}} ;; esac; done
echo "{name} $cluster" >>"$SITE/asked"
{answer}
"""
_ANSWERS = {"sbatch": "echo 7", "squeue": "echo '7|7|N/A|COMPLETED|0:02|1:00|n1|None|N/A'"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in PROGRAMS:
        variable = "SBATCH_CLUSTERS" if name == "sbatch" else "NOTHING"
        default = "own" if name == "sacct" else "${SLURM_CLUSTERS:-own}"  # sacct(1) has no such variable
        text = _PROGRAM.format(variable=variable, name=name, answer=_ANSWERS.get(name, ":"))
        (tmp_path / name).write_text(text.replace("${SLURM_CLUSTERS:-own}", default))
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "cluster"),
    [
        ({}, "own"),
        ({"SLURM_CLUSTERS": "big"}, "big"),
        ({"SBATCH_CLUSTERS": "big"}, "own"),
        ({"SLURM_CLUSTERS": "big,small"}, "own"),
        ({"SLURM_CLUSTERS": "all", "SBATCH_CLUSTERS": "small"}, "own"),
    ],
)
def test_every_command_goes_to_one_cluster(site: Path, variables: dict[str, str], cluster: str) -> None:
    part, slurm = make("slurm", directory=str(site)), registry.get("slurm")
    commands = [slurm.submit_command(part.spec), slurm.find_command(TAG, "digits")]
    commands += [slurm.status_command(["7"]), slurm.cancel_command(["7"])]
    environment = {"PATH": f"{site}:{os.environ['PATH']}", "SITE": str(site), **variables}
    for command in commands:
        subprocess.run(["sh", "-c", command], env=environment, stdin=subprocess.DEVNULL, check=True)
    asked = {tuple(line.split()) for line in (site / "asked").read_text().splitlines()}
    assert asked == {(name, cluster) for name in PROGRAMS}
