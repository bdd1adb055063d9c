"""Jobs on a real API server, controller manager and scheduler; the kubelet alone is played (tests/real/kubelet.py)."""

import os
import signal
import subprocess
from pathlib import Path

import deployed

RIG = Path(__file__).resolve().parent.parent / "real" / "kubernetes.sh"
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {%s}}\n"


def test_a_job_runs_once_and_its_results_come_back(site: deployed.Site) -> None:
    plan = site.plan("echo said; mkdir out; echo 42 >out/answer", outputs=["out"])
    checked = site.modak("deploy", plan, "--check")
    assert (checked.returncode, site.everything()) == (0, []), checked.stderr
    done = site.modak("deploy", plan)
    assert done.returncode == 0, done.stderr
    (results,) = (site.folder / "results").iterdir()
    assert (results / "out/answer").read_text() == "42\n"
    assert (results / "output.log").read_text() == "said\n"
    assert site.modak("logs", plan).stdout == "said\n"
    before = site.kubectl("get", "jobs,pods", "-n", site.namespace, "-o", "jsonpath={.items[*].metadata.uid}")
    again = site.modak("deploy", plan)
    assert (again.returncode, "(unchanged)" in again.stdout) == (0, True), again.stdout + again.stderr
    assert before == site.kubectl("get", "jobs,pods", "-n", site.namespace, "-o", "jsonpath={.items[*].metadata.uid}")
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []
    assert "nothing to remove" in site.modak("undeploy", plan).stdout


def test_a_job_that_fails_is_told_with_its_exit_code_and_not_run_again(site: deployed.Site) -> None:
    plan = site.plan("echo broken; echo part >out; exit 3", outputs=["out"])
    for _ in range(2):
        done = site.modak("deploy", plan)
        assert (done.returncode, "exit code 3" in done.stderr) == (5, True), done.stderr
    (results,) = (site.folder / "results").iterdir()
    assert (results / "out").read_text() == "part\n"
    assert len(site.kubectl("get", "pods", "-n", site.namespace, "-o", "name").split()) == 1


def test_undeploy_cancels_a_job_that_runs(site: deployed.Site) -> None:
    plan = site.plan("echo begun; sleep 1000")
    assert site.modak("deploy", plan, "--no-wait").returncode == 0
    site.until_phase("Running")
    with subprocess.Popen(site.command("deploy", plan), cwd=site.folder, stderr=subprocess.PIPE, text=True) as waits:
        assert site.modak("undeploy", plan).returncode == 0
        assert "was deleted" in waits.communicate(timeout=60)[1] or waits.returncode == 0
    site.modak("undeploy", plan)
    assert site.everything() == []


def test_a_quota_of_pods_is_told(site: deployed.Site) -> None:
    site.kubectl("apply", "-n", site.namespace, "-f", "-", stdin=QUOTA % 'pods: "0"')
    plan = site.plan("true")
    done = site.modak("deploy", plan)
    assert (done.returncode, "exceeded quota" in done.stderr) == (5, True), done.stderr
    site.kubectl("delete", "resourcequota", "none", "-n", site.namespace)
    assert site.modak("deploy", plan).returncode in (0, 5)
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []


def test_a_job_that_is_not_admitted_leaves_nothing(site: deployed.Site) -> None:
    site.kubectl("apply", "-n", site.namespace, "-f", "-", stdin=QUOTA % '"count/jobs.batch": "0"')
    done = site.modak("deploy", site.plan("true"))
    assert (done.returncode, "403" in done.stderr, site.everything()) == (5, True, []), done.stderr


def test_a_namespace_that_is_not_there_is_told(site: deployed.Site) -> None:
    plan = site.plan("true")
    missing = deployed.Site(site.rig, site.folder, "missing")
    done = missing.modak("deploy", plan)
    assert (done.returncode, "not found" in done.stderr, "Traceback" in done.stderr) == (5, True, False), done.stderr


def test_a_lost_node_is_told_and_the_job_not_run_elsewhere(site: deployed.Site) -> None:
    plan = site.plan("sleep 1000")
    assert site.modak("deploy", plan, "--no-wait").returncode == 0
    site.until_phase("Running")
    os.kill(int((site.rig / "kubelet.pid").read_text()), signal.SIGKILL)
    try:
        done = site.modak("deploy", plan)
        assert (done.returncode, "does not answer" in done.stderr) == (5, True), done.stderr
        assert len(site.kubectl("get", "pods", "-n", site.namespace, "-o", "name").split()) == 1
    finally:
        subprocess.run([RIG, "kubelet"], check=True, stdin=subprocess.DEVNULL)
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []
