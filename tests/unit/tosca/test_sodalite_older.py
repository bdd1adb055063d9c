"""What SODALITE's node types before 2021 say, as properties of the present ones."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError
from modak_deploy.tosca.sodalite import sections
from modak_deploy.tosca.sodalite_older import execution, header

MANAGER = {"scheduler": "slurm", "public_address": "login", "username": "", "ssh-key": ""}


def _sections(scheduler: str = "slurm", **told: Any) -> dict[str, Any]:
    made = execution({"name": "job", "script": "#!/bin/sh\necho hi\n", **told}, [], {})
    return sections({**made, "tosca_name": "node"}, {**MANAGER, "scheduler": scheduler})


def test_a_configuration_is_what_the_job_asks_for() -> None:
    made = _sections(nb_nodes=2, ppn=4, gpus=1, walltime="00:30:00", email="a@b.c", queue="gpu", scratch="/tmp/s")
    job = made["job"]
    assert (job["name"], job["nodes"], job["ranks"], job["gpus"], job["wall_time"]) == ("job", 2, 8, 1, 1800)
    assert (job["partition"], job["mail_user"], job["mail_events"]) == ("gpu", "a@b.c", ["begin", "end", "fail"])
    assert made["application"]["environment"] == {"SCRATCH": "/tmp/s"}
    assert made["files"]["job-script.sh"] == "#!/bin/sh\necho hi\n"


@pytest.mark.parametrize("scheduler", ["slurm", "torque"])
def test_a_machine_is_named(scheduler: str) -> None:
    job = _sections(scheduler, job_node_name="node-1", nb_nodes=3)["job"]
    assert (job["node_list"], job["nodes"], job.get("constraint")) == ("node-1", 1, None)


def test_variables_may_be_numbers() -> None:
    assert _sections(env={"MPI_RANKS": 4})["application"]["environment"]["MPI_RANKS"] == "4"


@pytest.mark.parametrize(
    "text",
    [
        "#PBS -N own\n#PBS -l nodes=2:ppn=4:gpus=1,walltime=01:00:00\n#PBS -q gpu\n#PBS -m abe\n",
        "#SBATCH -J own\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:1\n"
        "#SBATCH --time 01:00:00\n#SBATCH --partition=gpu\n#SBATCH --mail-type=ALL\n",
    ],
)
def test_the_header_of_a_preconfigured_script_counts(text: str) -> None:
    job = _sections(script=f"#!/bin/sh\n{text}true\n", preconfigured=True, name="")["job"]
    assert (job["name"], job["nodes"], job["ranks"], job["gpus"]) == ("own", 2, 8, 1)
    assert (job["wall_time"], job["partition"]) == (3600, "gpu")


def test_the_scripts_that_modak_makes_have_a_header_that_is_kept() -> None:
    made = header(
        "#SBATCH --comment=modak-1\n#SBATCH --no-requeue\n#SBATCH --export=NONE\n#SBATCH --nodes=2\n"
        "#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\n#SBATCH --cpus-per-task=2\n#SBATCH --mem=1024M\n"
    )
    assert made == {
        "node_count": 2, "process_count_per_node": 2, "core_count_per_process": 2, "memory_limit": "1024M",
    }  # fmt: skip
    assert header("#PBS -v MODAK_TAG=modak-1\n#PBS -r n\n#PBS -l nodes=1:ppn=2\n")["node_count"] == 1


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("#SBATCH --time=30", {"wall_time_limit": "30m"}),
        ("#SBATCH -t 90:30", {"wall_time_limit": "5430"}),
        ("#SBATCH --time=1-12", {"wall_time_limit": "1-12"}),
        ("#SBATCH --mem=4000", {"memory_limit": "4000M"}),
        ("#SBATCH --mem=4G", {"memory_limit": "4G"}),
        ("#PBS -l walltime=1800", {"wall_time_limit": "1800"}),
        ("#PBS -l walltime=30:00", {"wall_time_limit": "1800"}),
        ("#SBATCH -N2 -p gpu # two", {"node_count": 2, "partition": "gpu"}),
        ("#PBS -V -q long -l nodes=3", {"queue": "long", "node_count": 3}),
        ('#SBATCH --job-name="own"', {"job_name": "own"}),
        ("cat >other <<.\n#SBATCH -N 8", {}),
    ],
)
def test_a_header_is_read_as_its_scheduler_does(line: str, made: dict[str, Any]) -> None:
    assert header(f"#!/bin/sh\n\n# a comment\n{line}\n") == made


def test_times_and_memory_of_a_header_have_the_schedulers_units() -> None:
    job = _sections(script="#!/bin/sh\n#SBATCH --time=30 --mem=4000\ntrue\n", preconfigured=True)["job"]
    assert (job["wall_time"], job["memory"]) == (1800, 4000 * 2**20)


@pytest.mark.parametrize(
    "line", ["#PBS -v A=b", "#PBS -t 1-3", "#SBATCH --array=1-3", "#PBS -l mem=4gb", "#SBATCH -N two"]
)
def test_a_header_that_cannot_be_kept_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="script: "):
        header(f"#!/bin/sh\n{line}\n")


def test_a_script_is_a_file_beside_the_blueprint_or_kept(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.sh").write_text("echo file\n")
    told = {"name": "a", "script": "jobs/a.sh"}
    assert execution(told, [tmp_path / "none", tmp_path], {})["content"] == "echo file\n"
    assert execution(told, [tmp_path], {"job-script.sh": "echo kept\n"})["content"] == "echo kept\n"
    with pytest.raises(InputError, match="the file 'jobs/a\\.sh' not found in /nowhere"):
        execution(told, [Path("/nowhere")], {})


def test_a_job_without_any_script_is_refused() -> None:
    with pytest.raises(InputError, match="neither a configuration nor a script"):
        execution({"name": "a"}, [], {})
