"""One document on a cluster: by the command line and by the playbooks, which are the same for every target."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import deployed

DIGEST = f"sha256:{'a' * 64}"
PROGRAM = "echo said; cat words >answer; sleep 1"


@pytest.fixture
def document(site: deployed.Site) -> Path:
    """An application with an input and an output on the site's namespace."""
    (site.folder / "words").write_text("from the user\n")
    described = {
        "application": {
            "name": "probe",
            "type": "hpc",
            "executable": "sh",
            "arguments": ["-c", PROGRAM],
            "inputs": ["words"],
            "outputs": ["answer"],
            "image": f"docker://example.org/team/probe@{DIGEST}",
        },
        "target": {
            "name": "cluster",
            "type": "kubernetes",
            "node": {"cores": 2, "memory": "4 GiB"},
            "kubernetes": {"namespace": site.namespace},
        },
        "job": {"wall_time": "10 m"},
    }
    path = site.folder / "deploy.yml"
    path.write_text(yaml.safe_dump(described))
    return path


def modak(site: deployed.Site, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "modak_deploy", *map(str, words)]
    return subprocess.run(command, cwd=site.folder, capture_output=True, text=True, check=False)


def played(site: deployed.Site, playbook: str, document: Path, *words: str) -> dict[str, int]:
    """Run a playbook; return what it counts for the target."""
    command = ["ansible-playbook", f"modak.deploy.{playbook}", "-e", f"deployment={document}", *words]
    environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}
    done = subprocess.run(command, cwd=site.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    recap = next(line for line in done.stdout.splitlines() if line.startswith("this-machine "))
    return {name: int(count) for name, _, count in (word.partition("=") for word in recap.split() if "=" in word)}


def check_results(site: deployed.Site) -> None:
    results = site.folder / "results/probe"
    assert (results / "answer").read_text() == "from the user\n"
    assert (results / "output.log").read_text() == "said\n"
    job = json.loads((results / "job.json").read_text())
    assert (job["state"], job["exit_code"], job["host"]) == ("completed", 0, "node-1")
    assert job["seconds"] >= 1


def test_the_command_line_deploys_to_a_cluster(site: deployed.Site, document: Path) -> None:
    checked = modak(site, "deploy", document, "--check", "--diff")
    assert (checked.returncode, site.everything()) == (0, []), checked.stderr
    assert "kind: Job" in checked.stdout
    done = modak(site, "deploy", document)
    assert done.returncode == 0, done.stderr
    check_results(site)
    before = site.uids()
    again = modak(site, "deploy", document)
    assert (again.returncode, again.stdout.rstrip().endswith("(unchanged)")) == (0, True), again.stdout
    assert json.loads(modak(site, "status", "probe", "--json").stdout)[0]["state"] == "completed"
    assert modak(site, "logs", "probe").stdout == "said\n"
    (site.folder / "results/probe/answer").unlink()
    (site.folder / "results/probe/job.json").unlink()
    assert modak(site, "results", "probe").returncode == 0
    check_results(site)
    assert before == site.uids()
    forced = modak(site, "deploy", document, "--force")
    assert forced.returncode == 0, forced.stderr
    assert set(before).isdisjoint(site.uids())
    assert modak(site, "undeploy", document).returncode == 0
    assert site.everything() == []


def test_a_job_that_failed_is_run_again_unless_that_is_not_wanted(site: deployed.Site, document: Path) -> None:
    described = yaml.safe_load(document.read_text())
    described["application"]["arguments"] = ["-c", "echo part >answer; exit 3"]
    document.write_text(yaml.safe_dump(described))
    seen = []
    for _ in range(2):
        done = modak(site, "deploy", document)
        assert (done.returncode, "exit code 3" in done.stderr) == (5, True), done.stderr
        assert (site.folder / "results/probe/answer").read_text() == "part\n"
        seen.append(site.uids())
    assert set(seen[0]).isdisjoint(seen[1])
    described["job"]["retry"] = False
    document.write_text(yaml.safe_dump(described))
    assert modak(site, "deploy", document).returncode == 5
    assert site.uids() == seen[1]


def test_the_playbooks_deploy_to_a_cluster(site: deployed.Site, document: Path) -> None:
    assert played(site, "deploy", document, "--check")["changed"] == 2  # the Plan, and the Job
    assert site.everything() == []
    assert played(site, "deploy", document)["changed"] == 2
    check_results(site)
    assert played(site, "deploy", document)["changed"] == 0
    assert played(site, "undeploy", document)["changed"] == 1
    assert site.everything() == []
    assert played(site, "undeploy", document)["changed"] == 0


def test_a_cluster_is_compared_with_other_targets(site: deployed.Site, document: Path) -> None:
    described = yaml.safe_load(document.read_text())
    del described["application"]["image"]
    described["other_targets"] = [{"name": "here", "type": "machine"}]
    document.write_text(yaml.safe_dump(described))
    planned = modak(site, "plan", document)
    assert planned.returncode == 0, planned.stderr
    assert "Plan for probe on here" in planned.stdout
    assert "Kubernetes runs images, as docker does" in " ".join(planned.stdout.split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": {"host": "login"}}, "has no 'host'"),
        ({"target": {"node": None}}, "needs 'node' with its 'cores'"),
        ({"job": {"ranks": 2}}, "2 ranks"),
        ({"job": {"qos": "high"}}, "job.qos"),
        ({"application": {"image": "library://example/team/probe:1"}}, "pull images of a registry only"),
    ],
)
def test_what_a_cluster_cannot_do_is_told_when_it_is_planned(
    site: deployed.Site, document: Path, change: dict[str, dict[str, object]], words: str
) -> None:
    described = yaml.safe_load(document.read_text())
    for section, values in change.items():
        described[section] = {k: v for k, v in {**described[section], **values}.items() if v is not None}
    document.write_text(yaml.safe_dump(described))
    for command in ("plan", "deploy"):
        done = modak(site, command, document)
        assert done.returncode in (2, 3), done.stdout
        assert words in done.stderr, done.stderr
    assert site.everything() == []


def test_a_blueprint_deploys_to_a_cluster(site: deployed.Site, document: Path) -> None:
    made = modak(site, "blueprint", "create", document, site.folder / "blueprint")
    assert made.returncode == 0, made.stderr
    assert "modak.nodes.target.KubernetesCluster" in (site.folder / "blueprint/probe.yaml").read_text()

    def opera(*words: str) -> str:
        command = ["opera", *words]
        done = subprocess.run(command, cwd=site.folder / "blueprint", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    opera("deploy", "probe.yaml")
    job, pod, *files = site.everything()
    assert (job[:10], pod[:8], len(files)) == ("job.batch/", "pod/moda", 1)
    outputs = yaml.safe_load(opera("outputs", "-f", "yaml"))
    assert outputs["job_state"]["value"] == "completed", outputs
    results = Path(outputs["results_path"]["value"])
    assert (results / "answer").read_text() == "from the user\n"
    opera("undeploy")
    assert site.everything() == []
