"""One validator for hosts and users: what ssh or a shell would take for something else is refused by the model."""

import pytest

from modak_deploy.documents import check
from modak_deploy.errors import InputError
from modak_deploy.model.target import Target

HOSTS = [
    "-oProxyCommand=x",
    "-",
    "",
    " ",
    "a b",
    "a\tb",
    "a\nb",
    "a;b",
    "$(id)",
    "`id`",
    "a|b",
    "a'b",
    "a\0b",
    "é",
    "a" * 254,
    "a@b",
]


@pytest.mark.parametrize("host", HOSTS)
def test_no_host(host: str) -> None:
    with pytest.raises(InputError, match=r"target: host: "):
        check(Target, {"name": "far", "host": host}, origin="target")


@pytest.mark.parametrize(
    "host", ["login", "login.example.org", "10.0.0.1", "fe80::1%eth0", "::1", "my_alias", "node-1"]
)
def test_a_host(host: str) -> None:
    assert check(Target, {"name": "far", "host": host}, origin="target").host == host


@pytest.mark.parametrize("user", ["-l", "-oProxyCommand=x", "a b", "$(id)", "a;b", "", "a\nb", "$", "machine$"])
def test_no_user(user: str) -> None:
    with pytest.raises(InputError, match=r"target: user: "):
        check(Target, {"name": "far", "host": "login", "user": user}, origin="target")


@pytest.mark.parametrize("user", ["alice", "alice@EXAMPLE.ORG", "a.b-c+d"])
def test_a_user(user: str) -> None:
    assert check(Target, {"name": "far", "host": "login", "user": user}, origin="target").user == user
