"""One job, whatever becomes of qsub's answer, of the server and of the controller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rig import TOP

if TYPE_CHECKING:
    from conftest import Cluster

LOST = {
    "answer lost": '"$real" "$@" >/dev/null; exit 1',
    "killed after it": '"$real" "$@" >/dev/null; kill -9 $$',
    "killed before it": "kill -9 $$",
    "slow": 'sleep 12; exec "$real" "$@"',
}


@pytest.mark.parametrize("script", LOST.values(), ids=LOST)
def test_answer_of_qsub(cluster: Cluster, script: str, tmp_path: Path) -> None:
    trace = cluster.workspace / "trace"
    once = f'n=/tmp/qsub-$(id -u); if mkdir "$n" 2>/dev/null; then {script}; else exec "$real" "$@"; fi'
    with cluster.instead("qsub", once):
        job = cluster.submit(f"echo run >>{trace}; sleep 2")
        assert cluster.wait(job).state == "completed"
    cluster.ssh("rmdir /tmp/qsub-$(id -u)")
    assert trace.read_text() == "run\n"


def test_server_restarted_while_a_job_runs(cluster: Cluster) -> None:
    job = cluster.submit("touch started; sleep 6")
    cluster.until(lambda: cluster.started(job))
    cluster.daemon("stop")
    try:
        time.sleep(3)
    finally:
        cluster.daemon("start")
    assert cluster.wait(job).state == "completed"


def test_controller_killed(cluster: Cluster, tmp_path: Path) -> None:
    trace = cluster.workspace / "trace"
    request = cluster.request(f"echo run >>{trace}; sleep 1")
    file = tmp_path / "plan.json"
    assert request.document is not None
    file.write_bytes(request.document.text)
    code = (
        "import sys; from pathlib import Path; from modak_deploy.jobs.control import Jobs;"
        "from modak_deploy.model.plan import Plan; from modak_deploy.jobrequest import job_request;"
        "from modak_deploy.transport.ssh import SshTransport; t = SshTransport('gridengine', config=Path(sys.argv[2]));"
        "Jobs(t).present(job_request(Plan.model_validate_json(Path(sys.argv[1]).read_text())))"
    )
    for seconds in (0.8, 1.2, 1.6, 2.0):
        process = subprocess.Popen(
            [sys.executable, "-c", code, file, cluster.folder / "client" / "ssh_config"],
            env={**os.environ, "PYTHONPATH": str(TOP)},
            start_new_session=True,
        )
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert cluster.wait(cluster.jobs.present(request)).state == "completed"
    assert trace.read_text() == "run\n"


def test_whole_deployment(cluster: Cluster, environment: dict[str, str], tmp_path: Path) -> None:
    """Discovery, plan, submission, results and undeployment, by the playbooks."""
    document = tmp_path / "deploy.yml"
    document.write_text(
        "application: {name: ge, type: hpc, executable: sh, arguments: [-c, 'echo 42 >out'], outputs: [out]}\n"
        f"target: {{name: grid, type: gridengine, host: gridengine, workspace: {cluster.workspace}}}\n"
        "job: {wall_time: 10m}\n"
    )
    results = tmp_path / "results"

    def play(name: str, *more: str) -> str:
        done = subprocess.run(
            ["ansible-playbook", f"modak.deploy.{name}", "-i", cluster.inventory, "-e", f"@{document}",
             "-e", f"results={results}", *more],
            env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def changed(output: str) -> bool:
        (recap,) = [line for line in output.splitlines() if line.startswith("gridengine ") and "changed=" in line]
        return "changed=0" not in recap

    assert "#$ -N ge" in play("deploy", "--check", "--diff")
    assert changed(play("deploy"))
    assert (results / "ge" / "out").read_text() == "42\n"
    assert not changed(play("deploy"))
    play("undeploy")
    assert not list((cluster.workspace / "runs").glob("ge-*"))
