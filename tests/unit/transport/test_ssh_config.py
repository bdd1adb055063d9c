"""What the SSH configuration says of the way to a host."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy.errors import InputError, TargetError
from modak_deploy.transport import ssh_config
from modak_deploy.transport.paramiko_ssh import ParamikoTransport
from modak_deploy.transport.ssh import SshTransport
from modak_deploy.transport.ssh_config import route, split
from modak_deploy.transport.ssh_connection import options_for
from modak_deploy.transport.ssh_errors import connection_error
from rig import TOP

SAID = yaml.safe_load((TOP / "tests" / "data" / "ssh" / "errors.yml").read_text())

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


def test_a_file_of_nobodys_home_is_no_traceback(config: Path) -> None:
    config.write_text("UserKnownHostsFile ~no-such-user/known\nIdentityFile ~no-such-user/key\n")
    if ssh_config.shutil.which("ssh"):
        with pytest.raises(InputError, match=r"is not valid: .*No such user"):
            route("host", config=config)
        return
    (hop,) = route("host", config=config)
    assert (hop.keys, hop.known_hosts[0]) == ([], Path("~no-such-user/known"))


def test_a_digit_that_is_no_number_is_one_sentence(config: Path) -> None:
    config.write_text("Port ²\n")
    with pytest.raises(InputError, match=r"is not valid|is '²', and not a number"):
        route("host", config=config)


def test_a_configuration_that_is_not_utf_8_is_no_traceback(config: Path) -> None:
    config.write_bytes(b"UserKnownHostsFile /known-\xff\n")
    if ssh_config.shutil.which("ssh"):
        assert os.fsencode(route("host", config=config)[0].known_hosts[0]) == b"/known-\xff"
    else:
        with pytest.raises(InputError, match=r"is not valid: .* can't decode"):
            route("host", config=config)


def test_an_ssh_that_does_not_come_to_an_end_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(ssh_config, "_ASKED", 0.2)
    with pytest.raises(InputError, match=r"ssh has not read its configuration within 0\.2 s"):
        route("host")


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


@pytest.mark.parametrize("kind", [SshTransport, ParamikoTransport])
def test_unreachable_host_is_one_sentence(kind: type[SshTransport] | type[ParamikoTransport], tmp_path: Path) -> None:
    (tmp_path / "config").write_text("")
    transport = kind("me@127.0.0.1:1", config=tmp_path / "config")
    with pytest.raises(TargetError, match=r"127\.0\.0\.1 \(me@127\.0\.0\.1 port 1\) cannot be reached") as caught:
        transport.run("true")
    assert "\n" not in str(caught.value)


def options(config: Path, destination: str, **rest: Any) -> dict[str, str]:
    return options_for(route(destination, config=config), ["ssh"], Path("/run/e"), interactive=False, **rest)


def test_options_are_stricter_than_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "Host lax\n  StrictHostKeyChecking no\n  ConnectTimeout 9\n  ServerAliveInterval 60\n"
        "Host in\n  ProxyJump lax\nHost asks\n  StrictHostKeyChecking yes\n"
    )
    given = options(file, "lax", known_hosts=tmp_path / "a b", private_key=tmp_path / "100%")
    assert given["StrictHostKeyChecking"] == "yes"
    assert given["UserKnownHostsFile"] == f'"{tmp_path}/a b"'
    assert given["IdentityFile"] == f'"{tmp_path}/100%%"'
    assert given["IdentitiesOnly"] == "yes"
    assert not given.keys() & {"ConnectTimeout", "ServerAliveInterval"}
    assert "KnownHostsCommand" not in given  # OpenSSH before 8.5 does not know it
    assert "StrictHostKeyChecking=yes" in options(file, "in")["ProxyCommand"]
    hops = route("asks", config=file)
    assert options_for(hops, ["ssh"], Path("/run/e"), interactive=True)["StrictHostKeyChecking"] == "yes"
    hops = route("lax", config=file)
    assert options_for(hops, ["ssh"], Path("/run/e"), interactive=True)["StrictHostKeyChecking"] == "ask"


def test_known_hosts_that_are_given_are_the_only_ones(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Host told\n  KnownHostsCommand /bin/echo %H\n")
    assert "KnownHostsCommand" not in options(file, "told")
    assert options(file, "told", known_hosts=tmp_path / "known")["KnownHostsCommand"] == "none"


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [(case["said"], case["kind"], case["message"]) for case in SAID],
    ids=[case["name"] for case in SAID],
)
def test_what_ssh_says(said: str, kind: str, text: str) -> None:
    error = connection_error("login", said)
    assert type(error).__name__ == kind
    assert str(error) == text


@pytest.mark.skipif(ssh_config.shutil.which("ssh") is None, reason="there is no program ssh")
def test_what_no_command_could_be_run_with_is_undone(tmp_path: Path) -> None:
    lines = ["RemoteCommand tmux", "StdinNull yes", "SessionType subsystem", "ForkAfterAuthentication yes"]
    (tmp_path / "config").write_text("\n".join(["Host odd", *lines, "Host *", "HostName 127.0.0.1"]))
    (odd,) = route("odd", config=tmp_path / "config")
    assert odd.session_options == {
        "RemoteCommand": "none", "StdinNull": "no", "SessionType": "default", "ForkAfterAuthentication": "no"
    }  # fmt: skip
    assert route("other", config=tmp_path / "config")[0].session_options == {}
