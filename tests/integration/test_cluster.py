"""The playbooks on a cluster whose login node has no Python, from a client that shares only a network with it."""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import Cluster
from endings import assert_unchanged, jobs_of, one_sentence
from sites import ClusterSite, Ended

Document = Callable[..., dict[str, Any]]
DATA = Path(__file__).parents[1] / "data" / "applications"


def output(site: ClusterSite, name: str = "output.log") -> str:
    (path,) = site.results.glob(f"*/{name}")
    return path.read_text()


def deploy(site: ClusterSite, document: dict[str, Any], *arguments: str) -> Ended:
    site.write(document)
    return site.play("deploy", *arguments)


@pytest.fixture(scope="module", autouse=True)
def over_time(cluster: Cluster, environment: dict[str, str]) -> Iterator[ClusterSite]:
    """A user whose job will be over its time limit, which Slurm counts in minutes; the last test comes back to it."""
    site = ClusterSite(cluster, environment)
    line = "echo begun | tee out; trap 'echo asked to end | tee -a out; exit 1' TERM; sleep 300 & wait"
    site.write(
        {
            "application": {
                "name": "over-time",
                "type": "hpc",
                "executable": "sh",
                "arguments": ["-c", line],
                "outputs": ["out"],
            },
            "target": {"name": "cluster", "type": "slurm", "host": "login"},
            "job": {"wall_time": "1m", "scratch": "/tmp"},
        }
    )
    ended = site.play("deploy", "-e", "wait=false")
    assert ended.code == 0, ended.text
    yield site
    site.play("undeploy")


def test_there_is_no_python_on_the_login_node(cluster: Cluster, cluster_site: ClusterSite) -> None:
    assert cluster.ssh("command -v python python2 python3 pypy3 || true") == ""
    assert cluster.ssh("find / -xdev -iname '*python*' -type f -perm /111 2>/dev/null || true") == ""
    assert cluster.ssh("uname -n; ls /usr/bin/sbatch").split() == ["login", "/usr/bin/sbatch"]
    pinged = cluster_site.ansible("login", "ansible.builtin.ping")
    assert pinged.code != 0
    assert "/usr/bin/python3: not found" in pinged.text
    assert cluster_site.ansible("c1", "ansible.builtin.ping").code == 0


def test_a_script_runs_on_a_compute_node_and_its_results_come_back(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    document = on_cluster("", target={"python": "/usr/bin/python3"})
    text = "a 'b' \"c\" $HOME `id` ; & ü\n#SBATCH --nodes=9\n"
    document["application"] |= {"executable": None, "script": "tiny.py", "arguments": ["--text", text]}
    document["application"] |= {"metrics": "metrics.json"}
    ended = deploy(cluster_site, document)
    assert ended.code == 0, ended.text
    metrics = json.loads(output(cluster_site, "metrics.json"))
    assert (metrics["text"], metrics["host"]) == (text, "c1")
    assert cluster.ended(metrics["job"]) == (document["application"]["name"], "COMPLETED")
    again = cluster_site.play("deploy")
    assert_unchanged(again)
    assert "changed=0" in again.text


def test_undeploy_while_the_job_runs(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    document = on_cluster("sleep 300")
    name = document["application"]["name"]
    ended = deploy(cluster_site, document, "-e", "wait=false")
    assert ended.code == 0, ended.text
    while not (running := jobs_of(cluster, document, "RUNNING")):
        time.sleep(0.1)
    assert cluster.ssh(f"ls -d .modak/runs/{name}-*")
    undeployed = cluster_site.play("undeploy")
    assert undeployed.code == 0, undeployed.text
    assert cluster.ended(running[0])[1] == "CANCELLED"
    assert cluster.ssh(f"ls .modak/runs | grep {name} || true") == ""
    assert_unchanged(cluster_site.play("undeploy"))


def test_an_array_of_twenty(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    document = on_cluster('echo "$MODAK_TASK squared is $((MODAK_TASK * MODAK_TASK))"', array="1-20%8")
    ended = deploy(cluster_site, document)
    assert ended.code == 0, ended.text
    logs = sorted(path.read_text() for path in cluster_site.results.glob("*/output.log.*"))
    assert logs == sorted(f"{number} squared is {number * number}\n" for number in range(1, 21))


def test_a_chain_of_dependent_jobs(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    before: list[str] = []
    for number in range(3):
        dependency = {"dependency": [f"afterok:{before[-1]}"]} if before else {}
        document = on_cluster(f"sleep 1; echo link {number}; date +%s.%N >when", **dependency)
        document["application"] |= {"outputs": ["when"]}
        wait = "true" if number == 2 else "false"
        ended = deploy(cluster_site, document, "-e", f"wait={wait}")
        assert ended.code == 0, ended.text
        before += jobs_of(cluster, document)
    assert [cluster.ended(job)[1] for job in before] == ["COMPLETED"] * 3
    assert output(cluster_site) == "link 2\n"


def test_a_dependency_that_is_never_satisfied(cluster_site: ClusterSite, on_cluster: Document) -> None:
    failed = deploy(cluster_site, on_cluster("exit 3"))
    one_sentence(failed, "failed", "exit code 3")
    (number,) = re.findall(r"job (\d+): failed", failed.text)
    one_sentence(deploy(cluster_site, on_cluster("true", dependency=[f"afterok:{number}"])), "never", "depends on")


def test_four_ranks_on_two_nodes(cluster_site: ClusterSite, on_cluster: Document) -> None:
    """MPICH, built by the job itself on its first node and started by srun."""
    document = on_cluster(
        "", target={"mpi_type": "pmi2"}, nodes=2, ranks=4, pre_execution="mpicc.mpich -O1 -o sum sum.c"
    )
    document["application"] |= {"executable": "./sum", "arguments": [], "inputs": [str(DATA / "sum.c")]}
    ended = deploy(cluster_site, document)
    assert ended.code == 0, ended.text
    lines = sorted(line for line in output(cluster_site).splitlines() if line.startswith("rank"))
    assert [line.split(" on ")[0] for line in lines] == [f"rank {rank} of 4, sum 6" for rank in range(4)]
    assert sorted(line.split(" on ")[1] for line in lines) == ["c1", "c1", "c2", "c2"]


def test_slurm_behind_torques_commands_is_driven_as_slurm(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    """A user who knows the site's qsub says torque; the wrappers would lose options, the array's among them."""
    assert cluster.ssh("qsub --version 2>&1 | head -n 1") == "Unknown option: version\n"
    document = on_cluster(
        "echo $MODAK_TASK of $SLURM_JOB_NUM_NODES", target={"type": "torque"}, array="1-3", nodes=2, mpi="none"
    )
    shown = deploy(cluster_site, document, "--check", "--diff")
    assert "#SBATCH --array=1-3" in shown.text, shown.text
    ended = cluster_site.play("deploy")
    assert ended.code == 0, ended.text
    assert "(slurm)" in ended.text
    logs = sorted(path.read_text() for path in cluster_site.results.glob("*/output.log.*"))
    assert logs == [f"{number} of 2\n" * 2 for number in (1, 2, 3)]
    assert len(jobs_of(cluster, document)) == 3


def test_gpus_are_reserved(cluster_site: ClusterSite, on_cluster: Document) -> None:
    ended = deploy(cluster_site, on_cluster('echo "$CUDA_VISIBLE_DEVICES"', gpus=2))
    assert ended.code == 0, ended.text
    assert output(cluster_site) == "0,1\n"


def test_more_gpus_than_a_node_has_are_refused(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    document = on_cluster("true", gpus=3)
    one_sentence(deploy(cluster_site, document), "3", "gpus")
    assert not jobs_of(cluster, document)


def test_cancelled_from_outside(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    document = on_cluster("echo begun; sleep 300")
    cluster_site.write(document)
    with cluster_site.start("deploy") as running:
        (job,) = running.wait_for(lambda: jobs_of(cluster, document, "RUNNING"))
        cluster.run("head", "scancel", job)
        one_sentence(running.end(20), "cancelled", job)


@pytest.fixture
def local(cluster: Cluster) -> str:
    """A folder on the disk of c1 alone."""
    folder = f"/tmp/{secrets.token_hex(8)}"
    cluster.run("c1", "mkdir", "--mode=1777", folder)
    return folder


def test_a_scratch_folder_on_the_nodes_own_disk(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document, local: str
) -> None:
    line = "mkdir d; (pwd; uname -n; ls) >'d/where it ran'; echo lost >other"
    document = on_cluster(
        line, scratch="$LOCAL", environment={"LOCAL": local}, pre_execution="echo >before", node_list="c1"
    )
    document["application"]["outputs"] = ["d"]
    ended = deploy(cluster_site, document)
    assert ended.code == 0, ended.text
    (where,) = cluster_site.results.glob("*/d/where it ran")
    folder, node, *files = where.read_text().splitlines()
    assert folder.startswith(f"{local}/modak.")
    assert (node, files) == ("c1", ["before", "d"])
    assert cluster.run("c1", "ls", "-A", local) == ""
    assert cluster.ssh(f"ls .modak/runs/{document['application']['name']}-*/work") == "d\n"


def test_what_a_cancelled_job_wrote_in_its_scratch_folder(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document, local: str
) -> None:
    line = "trap 'echo last >>out; exit 1' TERM; echo first >out; sleep 300 & wait"
    document = on_cluster(line, scratch=local, node_list="c1")
    document["application"]["outputs"] = ["out"]
    cluster_site.write(document)
    with cluster_site.start("deploy") as running:
        (job,) = running.wait_for(lambda: jobs_of(cluster, document, "RUNNING"))
        running.wait_for(lambda: "first" in cluster.run("c1", "sh", "-c", f"cat {local}/modak.*/out || true"))
        cluster.run("head", "scancel", job)
        one_sentence(running.end(60), "cancelled", job)
    assert output(cluster_site, "out") == "first\nlast\n"
    assert cluster.run("c1", "ls", "-A", local) == ""


def test_a_scratch_folder_for_two_nodes_is_refused(cluster_site: ClusterSite, on_cluster: Document) -> None:
    one_sentence(deploy(cluster_site, on_cluster("true", scratch="/tmp", nodes=2)), "job.scratch", "2 nodes")


def test_out_of_memory(cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document) -> None:
    why = cluster.folder / "etc" / "no-memory-limits"
    if why.exists():
        pytest.skip(f"jobs have no limits of memory on this machine: {why.read_text().strip()}")
    line = "echo begun; exec /usr/bin/python3 -c 'x = bytearray(400_000_000)'"
    ended = deploy(cluster_site, on_cluster(line, memory="100M"))
    one_sentence(ended, "out of memory", "it used more memory than it reserved")
    assert output(cluster_site).startswith("begun\n")


def test_what_the_host_key_does_not_prove_is_not_trusted(
    cluster: Cluster, cluster_site: ClusterSite, on_cluster: Document
) -> None:
    """Another machine answers under the login node's name."""
    inventory = yaml.safe_load(cluster.inventory.read_text())
    inventory["all"]["hosts"]["login"]["ansible_host"] = "c2"  # no other test leaves a connection to it open
    inventory["all"]["hosts"]["login"]["ansible_ssh_common_args"] = "-o HostKeyAlias=login"
    (cluster_site.folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
    cluster_site.write(on_cluster("true"))
    one_sentence(cluster_site.play("deploy", "-i", str(cluster_site.folder / "inventory.yml")), "Host key verification")


def test_over_its_time_limit(over_time: ClusterSite) -> None:
    ended = over_time.play("deploy")
    one_sentence(ended, "ended as timeout", "wall time")
    assert output(over_time) == output(over_time, "out") == "begun\nasked to end\n"
