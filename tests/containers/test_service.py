"""A service in containers: its program is told its port, replaced without a failed request, and leaves nothing."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from containers import Containers, UserTransport
from load import Load
from modak_deploy.documents import parse_deployment
from modak_deploy.images.store import realise
from modak_deploy.jobs.control import JobInput, Jobs
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.planning import plan_deployment, with_image
from modak_deploy.services.life import Services
from serving import free_ports

SERVER = (
    'use IO::Socket::INET; $| = 1; print "listening on $ENV{PORT}\\n"; $SIG{TERM} = sub { exit 0 };'
    '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ENV{PORT}, Listen => 50, ReuseAddr => 1)'
    ' or die "$!"; while ($c = $s->accept) { while (<$c>) { last if /^\\r?$/ } $n = length($ENV{ANSWER});'
    ' print $c "HTTP/1.1 200 OK\\r\\nContent-Length: $n\\r\\nConnection: close\\r\\n\\r\\n$ENV{ANSWER}"; close $c }'
)
"""Debian's smallest system has this much of Perl, and no server."""


class Host:
    """The user of the container parts on this machine, and a service of his in an image."""

    def __init__(self, parts: Containers, runtime: str) -> None:
        self.parts, self.runtime = parts, runtime
        self.workspace = parts.folder(f"service-{runtime}")
        self.transport = UserTransport(parts)
        (self.port,) = free_ports(1)

    def plan(self, answer: str) -> Plan:
        document = {
            "application": {
                "name": f"in-{self.runtime}", "type": "hpc", "executable": "perl", "arguments": ["-e", SERVER],
                "image": f"docker://{self.parts.registry}/library/debian:12", "environment": {"ANSWER": answer},
                "service": {"port": self.port, "health": "/", "start_limit": 90, "drain": 10},
            },
            "target": {"name": "here", "workspace": str(self.workspace)},
            "request": {"runtimes": [self.runtime]},
        }  # fmt: skip
        deployment = parse_deployment(document, origin="the test")
        made = plan_deployment(deployment, self.transport, search=[], now=datetime.now(UTC))
        return with_image(made, self.transport, search=[])

    def services(self, plan: Plan) -> Services:
        return Services(self.transport, Jobs(self.transport), plan, notice=print)

    def deploy(self, plan: Plan) -> bool:
        def inputs(request: JobRequest) -> JobInput:
            return JobInput(request, realise=lambda directory: realise(self.transport, request, directory) and None)

        return self.services(plan).deploy(inputs).changed


@pytest.mark.parametrize("runtime", ["podman", "apptainer"])
def test_a_service_in_an_image(parts: Containers, runtime: str) -> None:
    host = Host(parts, runtime)
    first, second = host.plan("one"), host.plan("two")
    try:
        assert host.deploy(first)
        assert not host.deploy(first)
        with Load(host.port, most=3000, pause=0.03, clients=2) as load:
            load.wait_for(20)
            assert host.deploy(second)
            load.wait_for(sum(load.answers.values()) + 20)
        assert load.failures == []
        assert (load.order[0], load.order[-1]) == ("one", "two")
        (replica,) = host.services(second).see().record.replicas
        listed = parts.run("podman", "ps", "--quiet") if runtime == "podman" else "one"
        assert len(listed.split()) == 1
    finally:
        gone = host.services(second).absent()
    assert any(f"replica {replica.id}" in text for text in gone)
    assert runtime != "podman" or parts.run("podman", "ps", "--all", "--quiet").strip() == ""
    assert not list((Path(host.workspace) / "runs").glob("*"))
