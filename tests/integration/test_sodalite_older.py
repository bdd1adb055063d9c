"""xOpera on one blueprint of each of SODALITE's kinds, on a real Slurm and through Torque's commands."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import BLUEPRINTS, Orchestrator, connection, nothing_left
from rig import Rig

KINDS = Path(__file__).parents[1] / "data" / "blueprints" / "sodalite"
SCRIPT = """#!/bin/bash
#PBS -N configured
#PBS -l nodes=1:ppn=2,walltime=00:05:00
cat <<'END'
{{ 6 * 7 }} of ${#A[@]}
END
echo "${CASE:-none} in $PWD" >>"$WORKSPACE_DIR/ran"
"""


def given_to(real_slurm: Rig, script: Path) -> dict[str, Any]:
    """Return the inputs of each kind."""
    way = connection(real_slurm)
    return {
        "frontend-address": way["host"],
        "key-location": way["private_key"],
        "script": str(script),
        **{name: way[name] for name in ("user", "port", "known_hosts")},
    }


def deployed(
    tmp_path: Path,
    environment: dict[str, str],
    real_slurm: Rig,
    kind: str,
    name: str,
    scheduler: str = "batch",
    **inputs: str,
) -> str:
    """Deploy and undeploy a blueprint, and check its outputs and the last job's name; return the job's log."""
    shutil.copytree(BLUEPRINTS / "modak", tmp_path / "b" / "modak")
    text = (KINDS / f"{kind}.yaml").read_text().replace("/older", f"/{tmp_path.name}")
    if "default: NODE" in text:
        text = text.replace("default: NODE", f"default: {real_slurm.ssh('sinfo -h -N -o %N').split()[0]}")
    text = text.replace("SCHEDULER", scheduler).replace("PYTHON", sys.executable)
    text = text.replace("STUBS", str(real_slurm.home / tmp_path.name / "bin"))
    (tmp_path / "b" / "s.yaml").write_text(text)
    (tmp_path / "job.sh").write_text(SCRIPT)
    opera = Orchestrator(tmp_path, environment, tmp_path / "b" / "s.yaml")
    with nothing_left(real_slurm.home / ".modak"):
        opera.inputs(**given_to(real_slurm, tmp_path / "job.sh") | inputs)
        ended = opera.deploy(timeout=400)
        assert ended.code == 0, ended.text
        outputs = opera.outputs()
        assert real_slurm.ended(outputs["job_id"]) == (name, "COMPLETED")
        undeployed = opera.run("undeploy", timeout=300)
        assert undeployed.code == 0, undeployed.text
    assert (outputs["state"], outputs.get("audit", "")) == ("completed", "")
    return next(Path(outputs["results_path"]).glob("*.out")).read_text()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("slurm-configured", "second"),
        pytest.param("slurm-node", "placed", marks=pytest.mark.long),
        pytest.param("neutral", "neutral", marks=pytest.mark.long),
    ],
)
def test_kinds_on_slurm(kind: str, name: str, tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    log = deployed(tmp_path, environment, real_slurm, kind, name)
    assert "neutral in" in log if kind == "neutral" else "{{ 6 * 7 }} of ${#A[@]}" in log


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("torque-alone", "alone"),
        pytest.param("torque-configured", "second", marks=pytest.mark.long),
        pytest.param("torque-node", "placed", marks=pytest.mark.long),
        pytest.param("neutral", "neutral", marks=pytest.mark.long),
    ],
)
def test_kinds_through_the_commands_of_torque(
    kind: str, name: str, tmp_path: Path, environment: dict[str, str], torque: Rig
) -> None:
    log = deployed(tmp_path, environment, torque, kind, name)
    assert "neutral in" in log if kind == "neutral" else "{{ 6 * 7 }} of ${#A[@]}" in log
    if kind == "torque-configured":
        lines = (torque.home / tmp_path.name / "ran").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["7", "none"]


@pytest.fixture(params=["slurm", pytest.param("torque", marks=pytest.mark.long)])
def manager(request: pytest.FixtureRequest) -> tuple[str, Rig]:
    """A manager's kind, and its cluster."""
    return request.param, request.getfixturevalue("real_slurm" if request.param == "slurm" else "torque")


def test_workflow_on_a_manager_and_a_machine(
    tmp_path: Path, environment: dict[str, str], manager: tuple[str, Rig]
) -> None:
    """The second job's host is a Compute whose type has user and key as attributes."""
    kind, cluster = manager
    log = deployed(tmp_path, environment, cluster, "workflow", "second", kind)
    assert log == "7 of {{ 6 * 7 }}\n"


def test_transfers_with_a_client_of_their_own(
    tmp_path: Path, environment: dict[str, str], manager: tuple[str, Rig]
) -> None:
    """Only globus-url-copy is a stand-in: nothing outside this machine can be reached."""
    _, cluster = manager
    home = f"~/{tmp_path.name}"
    cluster.ssh(f"mkdir -p {home}/bin && cat >{home}/bin/globus-url-copy", '#!/bin/sh\necho "$@"\n')
    cluster.ssh(f"chmod +x {home}/bin/globus-url-copy")
    log = deployed(tmp_path, environment, cluster, "transfer", "second")
    assert "-r -cd -p 2 file:///tmp/a gsiftp://ftp.example.org:2811/data/" in log


def test_autotuning_tries_levers_in_the_job(tmp_path: Path, environment: dict[str, str], real_slurm: Rig) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if real_slurm.ssh(f"test -x {sys.executable} || echo no").strip():
        pytest.skip(f"the user of the jobs cannot run {sys.executable}: the checkout is in a private folder")
    deployed(tmp_path, environment, real_slurm, "autotuned", "tuned", "slurm")
    (folder,) = (tmp_path / "results").glob("*")
    tuning = json.loads((folder / "job.json").read_text())["tuning"]
    assert any("pytorch-keep-memory" in trial["levers"] for trial in tuning["trials"])


def test_the_script_of_the_optimiser(tmp_path: Path, environment: dict[str, str], manager: tuple[str, Rig]) -> None:
    kind, cluster = manager
    script = tmp_path / "made" / "job.sh"
    deployed(tmp_path, environment, cluster, f"{kind}-optimised", "optimised", optimised=str(script))
    assert "{{ 6 * 7 }} of 42" in (cluster.home / tmp_path.name / "test.out").read_text()


def test_images_are_pulled_and_data_is_moved(
    tmp_path: Path, environment: dict[str, str], archive: str, manager: tuple[str, Rig]
) -> None:
    """Only apptainer and globus-url-copy are stand-ins: nothing outside this machine can be reached."""
    kind, cluster = manager
    home = f"~/{tmp_path.name}"
    cluster.ssh(f"mkdir -p {home}/bin {home}/downloaded")
    for name, body in {"apptainer": 'touch "$3"; echo "$4" >"$3"', "globus-url-copy": 'echo "$@"'}.items():
        cluster.ssh(f"cat >{home}/bin/{name} && chmod +x {home}/bin/{name}", f"#!/bin/sh\n{body}\n")
    source = archive.partition("#")[0]
    log = deployed(tmp_path, environment, cluster, f"{kind}-data", "moved", script=source)
    assert "-r -cd -p 2 file:///tmp/a gsiftp://ftp.example.org:2811/data/" in log
    folder = cluster.home / tmp_path.name
    assert (folder / "in" / "text").read_text() == "it's {{ 6 * 7 }}\n$HOME\n"
    assert (folder / "images" / "image_tag.sif").read_text() == "docker://repository/image:tag\n"
    assert (folder / "downloaded" / "solver.tar.gz").stat().st_size > 0
