"""What the SSH configuration says of the way to a host."""

from pathlib import Path

import pytest

from modak.errors import InputError, TargetError
from modak.transport import ssh_config
from modak.transport.ssh import SshTransport
from modak.transport.ssh_config import route, split

CONFIG = """
Host cluster
    HostName login.example.org
    Port 2222
    User me
    ProxyJump gate,inner
    UserKnownHostsFile {folder}/known
    HostKeyAlias the-cluster
    IdentityFile {folder}/key
    IdentityFile {folder}/missing
    IdentitiesOnly yes
    ConnectTimeout 7
Host gate
    HostName gate.example.org
    ProxyJump outer
Host tunnel
    HostName 10.0.0.1
    ProxyCommand nc -X 5 %h %p %r %% %n
Host round
    ProxyJump round2
Host round2
    ProxyJump round
"""


@pytest.fixture(params=["by OpenSSH", "by paramiko"])
def config(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, read by either of the two readers."""
    if request.param == "by paramiko":
        monkeypatch.setattr(ssh_config.shutil, "which", lambda program: None)
    elif ssh_config.shutil.which("ssh") is None:
        pytest.skip("there is no program ssh")
    (tmp_path / "key").touch()
    file = tmp_path / "config"
    file.write_text(CONFIG.format(folder=tmp_path))
    return file


def test_all_that_a_host_says(config: Path) -> None:
    hop = route("cluster", config=config)[-1]
    assert (hop.alias, hop.host, hop.port, hop.user) == ("cluster", "login.example.org", 2222, "me")
    assert (hop.key_name, hop.timeout, hop.only_these_keys) == ("the-cluster", 7, True)
    assert hop.keys == [str(config.parent / "key")]
    assert config.parent / "known" in hop.known_hosts


def test_jumps_in_their_order(config: Path) -> None:
    assert [hop.host for hop in route("cluster", config=config)] == [
        "outer",
        "gate.example.org",
        "inner",
        "login.example.org",
    ]


def test_arguments_win_over_the_configuration(config: Path) -> None:
    hop = route("cluster", user="you", port=22, config=config)[-1]
    assert (hop.user, hop.port) == ("you", 22)
    hop = route("them@cluster:23", config=config)[-1]
    assert (hop.user, hop.port) == ("them", 23)


def test_proxy_command(config: Path) -> None:
    hop = route("me@tunnel", config=config)[-1]
    assert hop.proxy_command == "nc -X 5 10.0.0.1 22 me % tunnel"


def test_jumps_in_a_circle(config: Path) -> None:
    with pytest.raises(InputError, match="leads over more than 8 hosts, or in a circle"):
        route("round", config=config)


def test_unknown_host_is_itself(config: Path) -> None:
    (hop,) = route("elsewhere.example.org", config=config)
    assert (hop.host, hop.port, hop.key_name, hop.jumps) == (
        "elsewhere.example.org",
        22,
        "elsewhere.example.org",
        [],
    )


def test_include_is_followed_or_refused(config: Path, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host far\n  Port 99\n")
    config.write_text(f"Include {tmp_path}/more\n")
    if ssh_config.shutil.which("ssh"):
        assert route("far", config=config)[0].port == 99
    else:
        with pytest.raises(InputError, match="uses Include, which needs the program ssh"):
            route("far", config=config)


@pytest.mark.parametrize(
    ("destination", "parts"),
    [
        ("host", ("host", None, None)),
        ("me@host", ("host", "me", None)),
        ("me@host:22", ("host", "me", "22")),
        ("ssh://me@host:22", ("host", "me", "22")),
        ("2001:db8::1", ("2001:db8::1", None, None)),
        ("me@[2001:db8::1]:22", ("2001:db8::1", "me", "22")),
    ],
)
def test_destinations(destination: str, parts: tuple[str, ...]) -> None:
    assert split(destination) == parts


@pytest.mark.parametrize("destination", ["", "me@", "-oProxyCommand=id", "-l@host", "two words", "host:abc"])
def test_destinations_that_are_none(destination: str) -> None:
    with pytest.raises(InputError):
        route(destination)


def test_unreachable_host_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    transport = SshTransport("me@127.0.0.1:1", config=tmp_path / "config")
    with pytest.raises(TargetError, match=r"127\.0\.0\.1 \(me@127\.0\.0\.1 port 1\) cannot be reached") as caught:
        transport.run("true")
    assert "\n" not in str(caught.value)
