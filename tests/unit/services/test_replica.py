"""The jobs that a service consists of."""

from pathlib import Path

from modak_deploy.services.record import tag_of
from modak_deploy.services.replica import front_request, removal_request, replica_request
from modak_deploy.services.steps import service_of
from services import replica, service_plan


def test_a_replica_is_told_its_ports(tmp_path: Path) -> None:
    made = service_plan(tmp_path, "serve", "--port={port}", "{grpc}", "{other}", further_ports=["grpc"])
    request = replica_request(made, service_of(made), replica(1, made, ports=[20001, 20002]))
    assert request.argv == ["serve", "--port=20001", "20002", "{other}"]
    assert request.environment == {"PORT": "20001", "PORT_GRPC": "20002"}
    assert request.supervised and request.tag == tag_of("probe", f"{1:016x}")


def test_what_removes_a_job_has_its_tag(tmp_path: Path) -> None:
    made = service_plan(tmp_path)
    one = replica(1, made)
    assert removal_request(made, one.id).tag == replica_request(made, service_of(made), one).tag
    assert front_request(made, one.id, ["haproxy"]).argv == ["haproxy"]
