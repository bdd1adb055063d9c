"""A replacement under load whose controller is killed after each of its round trips in turn, and begun again."""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from jobplans import source
from load import Load
from modak_deploy.jobs.control import JobInput, Jobs
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.plan import Plan
from modak_deploy.services.life import Services
from modak_deploy.transport.local import LocalTransport
from rig import TOP
from services import service_plan
from serving import free_ports
from transports import Counting, Failing, Killed

pytestmark = pytest.mark.long

SERVER = TOP / "tests" / "data" / "applications" / "server.py"


class Host:
    """This machine as the host of a service."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workspace = folder, folder / "workspace"
        (self.port,) = free_ports(1)

    def plan(self, version: str) -> Plan:
        file = self.folder / f"{version}.txt"
        file.write_text(version)
        self.sources = (source("version.txt", file),)
        made = service_plan(
            self.workspace, sys.executable, str(SERVER), "{port}", port=self.port, health="/", drain=10, start_limit=60
        )
        return made.model_copy(update={"sources": [item.source for item in self.sources]})

    def services(self, plan: Plan, transport: LocalTransport) -> Services:
        return Services(transport, Jobs(transport), plan, notice=print)

    def deploy(self, plan: Plan, transport: LocalTransport | None = None) -> bool:
        def inputs(request: JobRequest) -> JobInput:
            return JobInput(request, self.sources)

        return self.services(plan, transport or LocalTransport()).deploy(inputs).changed

    def processes(self, program: str) -> int:
        listed = subprocess.run(["ps", "-e", "-ww", "-o", "args="], capture_output=True, text=True, check=True).stdout
        lines = [line for line in listed.splitlines() if str(self.workspace) in line and "supervise.sh" in line]
        return len([line for line in lines if program in line])


@pytest.fixture
def host(tmp_path: Path):
    if shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") is None:
        pytest.skip("haproxy is not installed")
    made = Host(tmp_path)
    yield made
    plan = made.plan("last")
    made.services(plan, LocalTransport()).absent()
    assert made.processes("") == 0
    assert not made.workspace.exists() or not list(made.workspace.rglob("*"))


def test_a_controller_killed_after_each_round_trip(host: Host) -> None:
    host.deploy(host.plan("first"))
    counting = Counting()
    assert host.deploy(host.plan("second"), counting)
    trips = counting.trips
    assert 12 <= trips <= 60
    with Load(host.port, most=50_000, pause=0.02, clients=2) as load:
        for at in range(trips):
            plan = host.plan(f"v{at}")
            with suppress(Killed):
                host.deploy(plan, Failing(at, after=True))
            host.deploy(plan)
            seen = host.services(plan, LocalTransport()).see()
            assert [(r.plan, r.state) for r in seen.record.replicas] == [(plan.tag(), "serving")], at
            assert host.processes("server.py") == 1 and host.processes("haproxy") == 1, at
            assert host.deploy(plan) is False, at
        load.wait_for(sum(load.answers.values()) + 5)
    print(trips, sum(load.answers.values()), load.failures)
    assert load.failures == []
    first = [text for text in dict.fromkeys(load.order) if text.startswith("v")]
    assert first == [f"v{at}" for at in range(trips)]


def test_a_first_deployment_and_an_undeployment_killed_after_each_round_trip(host: Host) -> None:
    counting = Counting()
    plan = host.plan("first")
    host.deploy(plan, counting)
    ending = Counting()
    host.services(plan, ending).absent()
    for at in range(max(counting.trips, ending.trips)):
        for _ in range(2):
            try:
                host.deploy(plan, Failing(at, after=True))
                break
            except Killed:
                host.deploy(plan)
        assert host.processes("server.py") == 1 and host.processes("haproxy") == 1, at
        try:
            host.services(plan, Failing(at, after=True)).absent()
        except Killed:
            host.services(plan, LocalTransport()).absent()
        assert host.processes("") == 0 and not list(host.workspace.rglob("*")), at
