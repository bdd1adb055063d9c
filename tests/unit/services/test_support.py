"""What is refused before anything is planned or started."""

from pathlib import Path
from typing import Any

import pytest

from modak_deploy.errors import InputError, OptionError
from modak_deploy.jobrequest import job_request
from modak_deploy.model.application import Application
from modak_deploy.model.request import JobOptions
from modak_deploy.services.support import check_service
from services import service_plan


def test_a_machine_is_supported(tmp_path: Path) -> None:
    check_service(service_plan(tmp_path))


@pytest.mark.parametrize("kind", ["slurm", "kubernetes", "openpbs"])
def test_other_targets_are_not(tmp_path: Path, kind: str) -> None:
    made = service_plan(tmp_path)
    there = made.model_copy(update={"target": made.target.model_copy(update={"type": kind})})
    with pytest.raises(OptionError, match=f"application.service: not supported by a target of type {kind}"):
        check_service(there)


@pytest.mark.parametrize(
    "options", [{"wall_time": "5m"}, {"array": "0-3"}, {"scratch": "/tmp"}, {"post_execution": "x"}]
)
def test_options_of_jobs_that_end_are_not(tmp_path: Path, options: dict[str, Any]) -> None:
    made = service_plan(tmp_path).model_copy(update={"job": JobOptions.model_validate(options)})
    with pytest.raises(OptionError, match=f"job.{next(iter(options))}: not supported for a service"):
        check_service(made)


def test_the_variables_of_ports_are_modaks_own(tmp_path: Path) -> None:
    for name in ("PORT", "PORT_GRPC"):
        options = JobOptions.model_validate({"environment": {name: "1", "PORTAL": "x"}})
        with pytest.raises(OptionError, match=f"job.environment: '{name}' cannot be set"):
            check_service(service_plan(tmp_path).model_copy(update={"job": options}))
    options = JobOptions.model_validate({"environment": {"PORTAL": "x"}})
    check_service(service_plan(tmp_path).model_copy(update={"job": options}))


def test_a_service_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"application.service: 'probe' is a service, and not a job"):
        job_request(service_plan(tmp_path))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"outputs": ["x"]}, "'outputs' is not supported for a service"),
        ({"environment": {"PORT": "1"}}, "'PORT' cannot be set"),
        ({"service": {"port": 1, "front": "none", "replicas": 2}}, "several replicas need a 'front'"),
        ({"service": {"port": 1, "further_ports": ["port"]}}, "must differ"),
        ({"service": {"port": 1, "further_ports": [f"p{n}" for n in range(32)]}}, "at most 31"),
        ({"service": {"port": 1, "health": "no path"}}, "health"),
        ({"service": {"port": 1, "address": "host; rm"}}, "address"),
        ({"service": {"port": 1, "address": "1.2.3.4:80"}}, "'1.2.3.4:80' is not an IP address"),
        ({"service": {"port": 1, "address": "::::::"}}, "'::::::' is not an IP address"),
    ],
)
def test_an_inconsistent_description_is_refused(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Application.model_validate({"name": "x", "executable": "x", "service": {"port": 1}, **more})


def test_how_replicas_are_watched_changes_no_replica(tmp_path: Path) -> None:
    one, other = service_plan(tmp_path, port=1, drain=1, replicas=2), service_plan(tmp_path, port=2)
    assert one.tag() == other.tag()
    assert one.tag() != service_plan(tmp_path, further_ports=["grpc"]).tag()
