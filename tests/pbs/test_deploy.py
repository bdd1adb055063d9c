"""What an ordinary user does: discover, check, deploy, deploy again, undeploy."""

from pathlib import Path

import pytest

import sites
from modak_deploy.discovery.facts import parse_probe
from modak_deploy.discovery.probe import probe_script
from pbs import Daemons, Site


def test_discovery(site: Site) -> None:
    facts = parse_probe(site.ssh(probe_script(None)), None)
    assert facts.scheduler == site.scheduler
    queue = "batch" if site.torque else "workq"
    assert {partition.name: (partition.available, partition.default) for partition in facts.partitions} == {
        queue: (True, True),
        "closed": (False, False),
    }
    (open_one,) = [partition for partition in facts.partitions if partition.name == queue]
    assert (open_one.nodes, open_one.node.cores, open_one.maximum_wall_time) == (2, 4, 36000)


@pytest.mark.parametrize("scheduler", ["torque", "openpbs"])
def test_deployed_by_ansible(daemons: Daemons, tmp_path: Path, environment: dict[str, str], scheduler: str) -> None:
    if scheduler not in (daemons.folder / "etc" / "systems").read_text().split():
        pytest.skip(f"the sources of {scheduler} are not there")
    user = sites.Site(tmp_path, environment, daemons.inventory)
    user.write(
        {
            "application": {
                "name": f"deployed-{tmp_path.name[-6:]}",
                "type": "hpc",
                "executable": "sh",
                "arguments": ["-c", "echo well >result"],
                "outputs": ["result"],
            },
            "target": {"name": "site", "type": scheduler, "host": scheduler, "polling": {"first": 0.5, "maximum": 2.0}},
            "job": {"wall_time": "5m", "scratch": "/tmp"},
        }
    )
    checked = user.play("deploy", "--check", "--diff", timeout=240)
    assert checked.code == 0, checked.text
    assert "#PBS -l walltime=0:05:00" in checked.text
    first = user.play("deploy", timeout=300)
    assert first.code == 0, first.text
    (result,) = user.results.glob("*/result")
    assert result.read_text() == "well\n"
    again = user.play("deploy", timeout=240)
    assert again.code == 0, again.text
    assert "changed=0" in again.text
    removed = user.play("undeploy", timeout=240)
    assert removed.code == 0, removed.text
