"""Jobs on a real API server, controller manager and scheduler; the kubelet alone is played (tests/real/kubelet.py)."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import deployed

RIG = Path(__file__).resolve().parent.parent / "real" / "kubernetes.sh"
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {%s}}\n"
LIMITS = """\
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, max: {memory: 1Mi}}]}
"""
ODD = """\
mkdir out; ln -s /etc/passwd out/link; ln -s ../.. out/up; mkfifo out/pipe
touch "out/$(printf 'b\\033[2J')"; printf 'a\\033[2J'
"""


def test_a_job_runs_once_and_its_results_come_back(site: deployed.Site) -> None:
    plan = site.plan("echo said; mkdir out; echo 42 >out/answer", outputs=["out"])
    checked = site.modak("deploy", plan, "--check")
    assert (checked.returncode, site.everything()) == (0, []), checked.stderr
    assert "would be created" in checked.stdout
    done = site.modak("deploy", plan)
    assert done.returncode == 0, done.stderr
    (results,) = (site.folder / "results").iterdir()
    assert (results / "out/answer").read_text() == "42\n"
    assert (results / "output.log").read_text() == "said\n"
    assert site.modak("logs", plan).stdout == "said\n"
    assert "completed on node-1" in site.modak("status", plan).stdout
    before = site.uids()
    again = site.modak("deploy", plan)
    assert (again.returncode, "(unchanged)" in again.stdout) == (0, True), again.stdout + again.stderr
    assert "exists" in site.modak("deploy", plan, "--check").stdout
    assert before == site.uids()
    assert site.modak("undeploy", plan, "--check").stdout.endswith("would be removed\n")
    assert before == site.uids()
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []
    assert "nothing to remove" in site.modak("undeploy", plan).stdout


def test_files_travel_to_the_job(site: deployed.Site) -> None:
    (site.folder / "data").mkdir()
    (site.folder / "data/words").write_text("from the user\n")
    plan = site.plan("cat data/words", inputs=["data/words"])
    done = site.modak("deploy", plan)
    assert done.returncode == 0, done.stderr
    assert site.modak("logs", plan).stdout == "from the user\n"
    (site.folder / "data/words").unlink()  # what undeploys a Plan does not need its files
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []


def test_a_job_that_fails_is_told_with_its_exit_code_and_not_run_again(site: deployed.Site) -> None:
    plan = site.plan("echo broken; echo part >out; exit 3", outputs=["out"])
    for _ in range(2):
        done = site.modak("deploy", plan)
        assert (done.returncode, "exit code 3" in done.stderr) == (5, True), done.stderr
    (results,) = (site.folder / "results").iterdir()
    assert (results / "out").read_text() == "part\n"
    assert len(site.pods()) == 1


def test_a_job_past_its_wall_time_is_ended(site: deployed.Site) -> None:
    plan = site.plan("sleep 1000", job={"wall_time": 2})
    done = site.modak("deploy", plan)
    assert (done.returncode, "DeadlineExceeded" in done.stderr) == (5, True), done.stderr


def test_results_that_are_lost_with_their_pod_are_told(site: deployed.Site) -> None:
    plan = site.plan("echo 1 >out", outputs=["out"])
    assert site.modak("deploy", plan, "--no-wait").returncode == 0
    site.until_phase("Succeeded")
    (pod,) = site.pods()
    site.kubectl("wait", "--for=condition=complete", "job", "--all", "-n", site.namespace)
    site.kubectl("delete", "pod", pod, "-n", site.namespace)
    done = site.modak("deploy", plan)
    assert (done.returncode, "are lost: its pod is gone" in done.stderr) == (5, True), done.stderr
    assert "there is no output" in site.modak("logs", plan).stderr


def test_undeploy_cancels_a_job_that_runs(site: deployed.Site) -> None:
    plan = site.plan("echo begun; echo $$ >/tmp/$HOSTNAME.pid; sleep 1000")
    assert site.modak("deploy", plan, "--no-wait").returncode == 0
    site.until_phase("Running")
    with subprocess.Popen(site.command("deploy", plan), cwd=site.folder, stderr=subprocess.PIPE, text=True) as waits:
        assert waits.stderr is not None
        assert "running" in waits.stderr.readline()
        (pod,) = site.pods()
        file = Path(f"/tmp/{pod}.pid")
        pid = int(file.read_text())
        file.unlink()
        assert site.modak("undeploy", plan).returncode == 0
        assert "was deleted" in waits.communicate(timeout=60)[1]
        assert waits.returncode == 5
    assert not Path(f"/proc/{pid}").exists()
    assert site.everything() == []


def test_a_quota_of_pods_is_told_and_the_job_starts_when_it_is_lifted(site: deployed.Site) -> None:
    site.apply(QUOTA % 'pods: "0"')
    plan = site.plan("true")
    done = site.modak("deploy", plan)
    assert (done.returncode, "exceeded quota" in done.stderr) == (5, True), done.stderr
    site.kubectl("delete", "resourcequota", "none", "-n", site.namespace)
    site.until_phase("Succeeded")
    assert site.modak("deploy", plan).returncode == 0
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []


def test_a_pod_that_is_not_admitted_is_told(site: deployed.Site) -> None:
    site.apply(LIMITS)
    plan = site.plan("true", job={"memory": 64 * 1024**2})
    done = site.modak("deploy", plan)
    assert (done.returncode, "maximum memory usage per Container is 1Mi" in done.stderr) == (5, True), done.stderr
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []


@pytest.mark.parametrize("options", [[], ["--check"]])
def test_a_job_that_is_not_admitted_leaves_nothing(site: deployed.Site, options: list[str]) -> None:
    site.apply(QUOTA % '"count/jobs.batch": "0"')
    (site.folder / "words").write_text("x")
    done = site.modak("deploy", site.plan("true", inputs=["words"]), *options)
    assert (done.returncode, "exceeded quota" in done.stderr, site.everything()) == (5, True, []), done.stderr


def test_a_namespace_that_is_not_there_is_told(site: deployed.Site) -> None:
    plan = site.plan("true")
    missing = deployed.Site(site.rig, site.folder, "missing")
    done = missing.modak("deploy", plan)
    assert (done.returncode, "not found" in done.stderr, "Traceback" in done.stderr) == (5, True, False), done.stderr


def test_a_job_of_somebody_else_is_not_touched(site: deployed.Site) -> None:
    plan = site.plan("sleep 1000")
    name = json.loads(site.modak("deploy", plan, "--check", "--json").stdout)["name"]
    site.kubectl("create", "job", name, "--image=example.org/other", "-n", site.namespace, "--", "sleep", "1000")
    before = site.uids()
    done = site.modak("deploy", plan)
    assert (done.returncode, "not this Plan's" in done.stderr) == (5, True), done.stderr
    assert "nothing to remove" in site.modak("undeploy", plan).stdout
    assert site.uids() == before


def test_a_lost_node_is_told_and_the_job_not_run_elsewhere(site: deployed.Site) -> None:
    plan = site.plan("sleep 1000")
    assert site.modak("deploy", plan, "--no-wait").returncode == 0
    site.until_phase("Running")
    os.kill(int((site.rig / "kubelet.pid").read_text()), signal.SIGKILL)
    try:
        done = site.modak("deploy", plan)
        assert (done.returncode, "does not answer" in done.stderr) == (5, True), done.stderr
        assert len(site.pods()) == 1
    finally:
        subprocess.run([RIG, "kubelet"], check=True, stdin=subprocess.DEVNULL)
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []


def test_a_controller_that_is_killed_leaves_one_job(site: deployed.Site) -> None:
    """Killed a little later each time: before, between and after the requests that create, and while it waits."""
    (site.folder / "words").write_text("x")
    plan = site.plan("echo once >out; sleep 2", inputs=["words"], outputs=["out"])
    seen = set()
    delay, later = 0.3, 0
    while later < 4:
        with subprocess.Popen(site.command("deploy", plan), cwd=site.folder, stderr=subprocess.DEVNULL) as run:
            time.sleep(delay)
            run.kill()
        delay += 0.05
        assert delay < 20, "no Job was created"
        seen.update(name for name in site.everything() if name.startswith("pod/"))
        later += bool(seen)
    done = site.modak("deploy", plan)
    assert done.returncode == 0, done.stderr
    assert len(seen | set(site.pods("pod/"))) == 1
    (results,) = (site.folder / "results").iterdir()
    assert (results / "out").read_text() == "once\n"
    assert site.modak("undeploy", plan).returncode == 0
    assert site.everything() == []


def test_two_controllers_at_once_make_one_job(site: deployed.Site) -> None:
    plan = site.plan("echo once >out", outputs=["out"])
    runs = [subprocess.Popen(site.command("deploy", plan), cwd=site.folder) for _ in range(4)]
    assert [run.wait(120) for run in runs] == [0, 0, 0, 0]
    assert len(site.pods()) == 1


def test_secrets_are_in_no_manifest_and_reach_the_program(site: deployed.Site) -> None:
    site.kubectl("create", "secret", "generic", "keys", "--from-literal=TOKEN=very-secret", "-n", site.namespace)
    plan = site.plan('[ "${TOKEN%-*} ${#TOKEN}" = "very 11" ]', secret_environment={"TOKEN": {"file": "token"}})
    refused = site.modak("deploy", plan)
    assert (refused.returncode, "TOKEN" in refused.stderr) == (2, True), refused.stderr
    done = site.modak("deploy", plan, "--secret", "keys")
    assert done.returncode == 0, done.stderr
    objects = site.kubectl("get", "jobs,pods,configmaps", "-n", site.namespace, "-o", "yaml")
    texts = [objects, plan.read_text(), done.stdout, done.stderr]
    texts += [path.read_text() for path in (site.folder / "results").rglob("*") if path.is_file()]
    assert [text for text in texts if "very-secret" in text] == []


def test_outputs_that_lead_out_of_the_results_are_skipped(site: deployed.Site) -> None:
    plan = site.plan(ODD, outputs=["out"])
    done = site.modak("deploy", plan)
    assert (done.returncode, "\x1b" in done.stdout + done.stderr) == (0, False), done.stderr
    (results,) = (site.folder / "results").iterdir()
    assert [path.name for path in (results / "out").iterdir()] == ["b\x1b[2J"]
    skipped = json.loads((results / "job.json").read_text())["not_fetched"]
    assert [line.partition(":")[0] for line in sorted(skipped)] == ["out/link", "out/pipe", "out/up"]


def test_too_large_outputs_are_told_and_the_output_is_kept(site: deployed.Site) -> None:
    plan = site.plan("echo said; head -c 6000000 /dev/urandom >big", outputs=["big"])
    done = site.modak("deploy", plan)
    assert (done.returncode, "a log takes 4194304" in done.stderr) == (5, True), done.stderr


def test_four_mebibytes_come_back(site: deployed.Site) -> None:
    plan = site.plan("head -c 4100000 /dev/urandom >big; sha256sum <big", outputs=["big"])
    done = site.modak("deploy", plan)
    assert done.returncode == 0, done.stderr
    (results,) = (site.folder / "results").iterdir()
    assert (results / "big").stat().st_size == 4_100_000
