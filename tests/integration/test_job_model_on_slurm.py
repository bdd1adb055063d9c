"""The job model's own scripts, as a user submits them by hand to the real Slurm."""

import json
import secrets
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy import cli
from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.site import Sites, load_sites
from rig import Rig

DATA = Path(__file__).parents[1] / "data" / "jobmodel"

SITE = {
    "version": 1,
    "infrastructures": [
        {
            "name": "rig",
            "scheduler": "slurm",
            "partitions": {
                "cpu": {
                    "nnodes": 4,
                    "default": True,
                    "node": {"ncpus": 1, "cpu": {"arch": "x86_64", "ncores": 2}, "memory": "1 GiB"},
                }
            },
            "storage": {"file:///tmp": {"storage_class": "default-common"}},
        }
    ],
    "scripts": [
        {
            "name": "stage-out",
            "conditions": {"infrastructure": {"name": "rig", "storage_class": "default-common"}},
            "data": {"stage": "post", "raw": 'echo "stored in $STORAGE"'},
        }
    ],
}


def document(archive: str, **options: Any) -> dict[str, Any]:
    return {
        "job": {
            "job_options": {
                "job_name": "solver", "node_count": 2, "process_count_per_node": 2, "wall_time_limit": "0:05:00 ",
                "standard_output_file": "out put.txt", "copy_environment": False, **options,
            },
            "application": {
                "app_tag": "solver", "app_type": "hpc", "executable": "solver/solve.sh",
                "arguments": "'a  b' \"$WORD\"", "mpi_ranks": 4, "storage_class_pref": "default-common",
                "pre-execution": "export WORD=before", "post-execution": "echo after",
                "build": {"src": archive, "build_command": "cp solve.sh.in solve.sh && chmod +x solve.sh"},
            },
            "target": {"name": "rig"},
        }
    }  # fmt: skip


def test_the_scripts_of_a_document_run_as_they_are(tmp_path: Path, archive: str, real_slurm: Rig) -> None:
    (tmp_path / "sites.yaml").write_text(yaml.safe_dump(SITE))
    (tmp_path / "job.json").write_text(json.dumps(document(archive)))
    with pytest.raises(SystemExit) as ended:
        cli.main(
            ["plan", str(tmp_path / "job.json"), "--site", str(tmp_path / "sites.yaml"), "-o", str(tmp_path / "m")]
        )
    assert not ended.value.code
    job = json.loads((tmp_path / "m" / "job.json").read_text())["job"]
    folder = f"job-model-{secrets.token_hex(4)}"
    real_slurm.ssh(f"mkdir {folder}")
    for name in ("build", "job"):
        real_slurm.ssh(f"cat >{folder}/{name}.sh", job[f"{name}_content"])
    real_slurm.ssh(f"cd {folder} && sbatch --wait build.sh && sbatch --wait job.sh")
    lines = (real_slurm.home / folder / "out put.txt").read_text().splitlines()
    assert sorted(lines[:4]) == [f"rank {number} of 4: a  b before" for number in range(4)]
    assert lines[4:] == ["after", "stored in /tmp"]
    with pytest.raises(subprocess.CalledProcessError) as failed:
        real_slurm.ssh(f"cd {folder} && printf '#!/bin/sh\\nexit 3\\n' >solver/solve.sh && sbatch --wait job.sh")
    assert failed.value.returncode == 3


SHAPES: list[dict[str, Any]] = yaml.safe_load((DATA / "shapes.yaml").read_text())


@pytest.mark.parametrize("target", [{"job_scheduler_type": "slurm"}, {"name": "rig"}], ids=["any", "site"])
def test_documents_of_all_shapes_run_as_they_are(tmp_path: Path, target: dict[str, str], real_slurm: Rig) -> None:
    sites, folder = rig_sites(tmp_path), f"shapes-{secrets.token_hex(4)}"
    real_slurm.ssh(f"mkdir {folder}")
    for number, shape in enumerate(SHAPES):
        body = {**shape["job"], "target": {**shape["job"].get("target", {}), **target}}
        done = answer({"job": body}, sites=sites, now=datetime.now(UTC), origin=shape["name"])
        real_slurm.ssh(f"mkdir {folder}/{number} && cat >{folder}/{number}/job.sh", done.job_script)
    each = "(cd $d; sbatch -W -Q job.sh; echo $d $? >end) & done; wait; cat */end"
    ends = real_slurm.ssh(f"cd {folder} && for d in *; do {each}")
    assert sorted(ends.splitlines()) == sorted(f"{number} 0" for number in range(len(SHAPES)))
    for number, shape in enumerate(SHAPES):
        (output,) = (real_slurm.home / folder / str(number)).glob("*.out")
        assert not Counter(shape["prints"]) - Counter(output.read_text().splitlines()), shape["name"]


def rig_sites(folder: Path) -> Sites:
    """Return the site of the rig."""
    (folder / "sites.yaml").write_text(yaml.safe_dump(SITE))
    return load_sites([folder / "sites.yaml"])
