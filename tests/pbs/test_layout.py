"""Ranks on nodes."""

import secrets
from dataclasses import replace

import pytest

from pbs import Site

MPIRUN = 'cat "$4" >"$HOSTS"; cat "$PBS_NODEFILE" >"$HOSTS.all"'


@pytest.mark.parametrize(("nodes", "ranks", "shares"), [(2, 2, [1, 1]), (2, 3, [2, 1]), (2, 5, [3, 2]), (1, 3, [3])])
def test_ranks_have_the_hosts_that_they_were_given(site: Site, nodes: int, ranks: int, shares: list[int]) -> None:
    hosts = site.workspace / "hosts"
    site.ssh(f"mkdir -p ~/bin; printf '%s\\n' '#!/bin/sh' '{MPIRUN}' >~/bin/mpirun; chmod 700 ~/bin/mpirun")
    job = {"environment": {"HOSTS": str(hosts)}, "pre_execution": "PATH=$HOME/bin:$PATH", "wall_time": 300}
    made = site.request("true", job=job)
    resources = {"nodes": nodes, "ranks": ranks, "ranks_per_node": -(-ranks // nodes)}
    made = replace(made, resources=type(made.resources)(**resources), tag=f"modak-{secrets.token_hex(8)}")
    result = site.wait(site.jobs.present(made))
    assert result.state == "completed", result.reason
    lines = hosts.read_text().split()
    assert sorted((lines.count(host) for host in set(lines)), reverse=True) == shares
    assert set(lines) == set(hosts.with_name("hosts.all").read_text().split()), "a host was reserved for nobody"


def test_uneven_ranks_while_one_node_has_room_for_all(site: Site) -> None:
    """Torque puts parts joined by '+' on one host, and pbs_mom then refuses to join itself: the job hangs for ever."""
    if site.torque:
        (line,) = [part for part in _directives(site) if part.startswith("#PBS -l nodes=")]
        assert "+" not in line


def _directives(site: Site) -> list[str]:
    made = site.request("true")
    made = replace(made, resources=type(made.resources)(nodes=2, ranks=3, ranks_per_node=2))
    return site.jobs.prepare(made).script.splitlines()
