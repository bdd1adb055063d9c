"""Who a request comes from, with and without a proxy before the service."""

import json
from pathlib import Path

import pytest

from modak_deploy.errors import InputError
from modak_deploy.serve.settings import Settings
from tests.support.rest_serving import TOKEN, Service, running

FORGED = "203.0.113.7"


def clients(service: Service) -> set[str]:
    """Return the clients in the log."""
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    return {line["client"] for line in lines if "client" in line}


def test_a_client_cannot_pass_for_others(tmp_path: Path) -> None:
    """Also not one on this machine, whose header uvicorn would believe: the limit on the rate counts its address."""
    with running(tmp_path, "--rate", "1") as service:
        answers = [service.ask("GET", "/", headers={"X-Forwarded-For": f"203.0.113.{n}"})[0] for n in range(9)]
    assert 429 in answers
    assert clients(service) == {"127.0.0.1"}


def test_behind_a_proxy_the_client_is_the_one_that_the_proxy_names(tmp_path: Path) -> None:
    with running(tmp_path, "--proxy", "127.0.0.1") as service:
        service.ask("GET", "/", headers={"X-Forwarded-For": f"198.51.100.1, {FORGED}"})
    assert clients(service) == {"127.0.0.1", FORGED}, "what the client itself wrote stands before"


def test_another_address_is_no_proxy(tmp_path: Path) -> None:
    with running(tmp_path, "--proxy", "192.0.2.0/24") as service:
        service.ask("GET", "/", headers={"X-Forwarded-For": FORGED})
    assert clients(service) == {"127.0.0.1"}


@pytest.mark.parametrize("address", ["*", "", "proxy.example.org", "192.0.2.1/24"])
def test_a_proxy_is_an_address_or_a_network(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match=r"--proxy .*: not an IP address or a network"):
        Settings(tmp_path, token=TOKEN, proxy=address).check()
